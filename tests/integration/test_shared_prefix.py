"""Installation below a group-writable prefix while a real second user attacks it."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path

import pytest

from tests.integration.conftest import write_easyconfig
from tests.integration.test_other_users import assert_untouched, home, mallory
from tests.preloaded import HPCMOD, call
from tests.stack import Done, ModuleTool, write_eb
from tests.users import Users

__all__ = ["home"]

pytestmark = pytest.mark.stack

EXCHANGE = """
cd "$1"; n=0
while :; do
    for one in software software/Toy software/Toy/1.0 modules/all modules/all/Toy; do
        [ -d $one ] && [ ! -L $one ] && n=$((n + 1)) && mv -T $one moved-$n 2>/dev/null && ln -s "$2" $one
    done
done
"""
"""Replaces each directory that the group can rename with a link as soon as it appears."""


@pytest.fixture
def easyconfig(tmp_path: Path, tiny_sif: Path) -> Path:
    """An easyconfig owned by alice, next to its image."""
    source = tmp_path / "source"
    source.mkdir()
    shutil.copy2(tiny_sif, source / "toy.sif")
    return write_easyconfig(source, checksums=[hashlib.sha256(tiny_sif.read_bytes()).hexdigest()])


def run(lmod: ModuleTool, home: Path, state: Path, *words: str | Path, **environ: str) -> Done:
    own = {"HOME": str(home), "XDG_STATE_HOME": str(state), "HPCMOD_SITE": "generic", "HPCMOD_CATALOGUE": ""}
    env = {**lmod.environment(), **own, "EASYBUILD_MODULES_TOOL": "Lmod", **environ}
    env["PATH"] = f"{write_eb(lmod.stack, lmod.home)}:{env['PATH']}"
    done = call(lmod.stack.python, HPCMOD, [str(lmod.stack.python.parent / "hpcmod"), *map(str, words)], env, home)
    assert done is not None
    return done


def test_an_installation_writes_nowhere_else_while_a_member_exchanges_directories(
    users: Users, home: Path, lmod: ModuleTool, easyconfig: Path, tmp_path: Path
) -> None:
    prefix = users.shared_directory("project")
    with mallory(users, EXCHANGE, prefix, home / "precious"):
        done = run(lmod, home, tmp_path / "state", "install", easyconfig, "--prefix", prefix)
    assert_untouched(home)
    said = done.stdout + done.stderr
    # The replacement is detected, or the directory is missing between the two steps of the exchange.
    says_so = "symbolic link" in said or re.search(rf"{prefix}/\S+: No such file or directory", said) is not None
    assert (done.returncode != 0, says_so, "Traceback" in said) == (True, True, False), said
    assert list((tmp_path / "state/hpcmod/staging").iterdir()) == []


def test_an_installation_below_a_shared_prefix_is_as_elsewhere(
    users: Users, home: Path, lmod: ModuleTool, easyconfig: Path, tmp_path: Path
) -> None:
    prefix = users.shared_directory("project")
    done = run(lmod, home, tmp_path / "state", "install", easyconfig, "--prefix", prefix)
    assert done.returncode == 0, done.stdout + done.stderr
    root = prefix / "software/Toy/1.0"
    record = json.loads((root / "record.json").read_text())
    assert (record["image"]["path"], record["provenance"] is None) == (str(root / "toy.sif"), True)
    files = [path for path in prefix.rglob("*") if path.is_file() and path.suffix not in (".log", ".sif")]
    unfinished = re.compile(rb"\.hpcmod-part[-+]\w")
    assert [path for path in files if unfinished.search(path.read_bytes())] == []
    assert (root / "bin/start-shell").stat().st_mode & 0o777 == 0o755
    assert list((root / "easybuild").glob("*.eb"))
    assert list((tmp_path / "state/hpcmod/staging").iterdir()) == []
    trees = {"MODULEPATH": str(prefix / "modules/all")}
    found = run(lmod, home, tmp_path / "state", "verify", "Toy/1.0", **trees)
    assert found.returncode == 0, found.stdout + found.stderr
