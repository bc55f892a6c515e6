"""Generated easyconfigs checked by the real EasyBuild: contribution checks, and the values that it parses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.modules.text.easyconfig import render_easyconfig
from hpcmod.modules.values.easyconfig import EasyconfigText, SifOrigin
from tests.stack import EasyBuild, run
from tests.unit.core.text.test_quote import HOSTILE

pytestmark = pytest.mark.stack

READ = """
import json
import sys
from easybuild.framework.easyconfig.easyconfig import EasyConfig
from easybuild.tools.options import set_up_configuration

set_up_configuration(args=[], silent=True)
names = ("name", "version", "versionsuffix", "homepage", "description", "image", "sources", "wrapped_commands")
for path in sys.argv[1:]:
    ec = EasyConfig(path)
    print(json.dumps({name: ec[name] for name in names}))
"""
TEXTS = [
    *(str(one.values[0]) for one in HOSTILE if one.id != "very long"),
    *("%(name)s %%(version)s 100% %s", "$root", "--option='of it' " * 20),
]


def written(directory: Path, texts: list[EasyconfigText]) -> list[Path]:
    for text in texts:
        (directory / text.file_name).write_text(render_easyconfig(text), encoding="utf-8")
    return [directory / text.file_name for text in texts]


def test_easybuild_reads_the_values_that_were_given(eb: EasyBuild, tmp_path: Path) -> None:
    base = EasyconfigText("Hostile", "1", "docker://ghcr.io/org/x@sha256:" + "0" * 64, "x", homepage="https://x.org")
    wanted = [
        replace(base, version=str(number), description=text or "-", wrapped_commands=((text, (text,)),))
        for number, text in enumerate(TEXTS)
    ]
    paths = written(tmp_path, [*wanted, replace(base, version="f", image="a file.sif", versionsuffix="-x")])
    (tmp_path / "read.py").write_text(READ)
    done = run([str(eb.stack.python), str(tmp_path / "read.py"), *map(str, paths)], eb.environment(), tmp_path)
    assert done.returncode == 0, done.stderr
    *read, file = map(json.loads, done.stdout.splitlines())
    assert [one["description"] for one in read] == [one.description for one in wanted]
    assert [one["wrapped_commands"] for one in read] == [[text] for text in TEXTS]
    assert read[0]["image"] == base.image
    assert (file["sources"], file["image"], file["versionsuffix"]) == (["a file.sif"], None, "-x")


def test_they_pass_the_checks_for_contributions(eb: EasyBuild, tmp_path: Path) -> None:
    everything = "\n".join(TEXTS)
    texts = [
        EasyconfigText("Torch", "1", "docker://ghcr.io/org/x@sha256:" + "0" * 64, everything, homepage="https://x.org"),
        EasyconfigText(
            "Torch",
            "2",
            "x.sif",
            "short",
            checksum="a" * 64,
            wrapped_commands=tuple((f"command{number}", (f"command{number}",)) for number in range(310)),
            comments=(everything,),
        ),
        EasyconfigText(
            "Torch",
            "3",
            "x.sif",
            "short",
            sif=SifOrigin((f"https://example.org/{'deep/' * 40}", "https://example.org/flat")),
            checksum="a" * 64,
            wrapped_commands=(
                ("python", ("python",)),
                ("c" * 200, ("a", "b" * 200, "--option " * 30)),
                ("short", ("a", "b")),
            ),
            environment=(("A", "1"), ("N" * 200, "v" * 300), ("FLAGS", everything), ("B", "2")),
        ),
    ]
    done = eb("--check-contrib", *written(tmp_path, texts))
    assert done.returncode == 0, done.stdout
    assert "FAIL" not in done.stdout
