"""A process that starts with imports already done behaves like a new Python process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.preloaded import HPCMOD, call
from tests.stack import run

pytestmark = pytest.mark.slow

PROGRAM = Path(sys.executable).with_name("hpcmod")


@pytest.mark.parametrize("words", [["--version"], ["nonsense"], ["site", "show", "--site", "here.toml"]])
def test_a_call_ends_and_prints_as_a_new_process(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "here.toml").write_text('name = "here"\nextends = "generic"\n')
    argv = [str(PROGRAM), *words]
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"}
    done, new = call(Path(sys.executable), HPCMOD, argv, environ, tmp_path), run(argv, environ, tmp_path)
    assert done and (done.returncode, done.stdout, done.stderr) == (new.returncode, new.stdout, new.stderr)


def test_a_call_has_its_own_umask_and_variables(tmp_path: Path) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "HPCMOD_SITE": "lumi"}
    argv = [str(PROGRAM), "site", "netstack", "capture", "libcrypto.so.3", "--output"]
    for umask, mode in ((0o077, 0o700), (0o022, 0o755)):
        made = tmp_path / f"{umask:o}"
        done = call(Path(sys.executable), HPCMOD, [*argv, str(made)], environ, tmp_path, umask=umask)
        assert done and made.stat().st_mode & 0o777 == mode, done
    shown = call(Path(sys.executable), HPCMOD, [str(PROGRAM), "site", "show"], environ, tmp_path)
    assert shown and "lumi" in shown.stdout
