"""A copy of Lmod whose Lua files are compiled: each call of Lmod mostly parses more than a hundred of them.

The copy is in the cache of the stack, where the nodes of the clusters and other users can read it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.stack import Stack

READ = ("libexec", "messageDir", "shells", "tools")
"""Directories of Lmod with the files that each call may read."""


def with_compiled_lmod(stack: Stack) -> Stack:
    """Return the stack with the compiled Lmod, or as it is if there is no compiler for the Lua that Lmod runs with."""
    top = stack.lmod_cmd.parent.parent
    lua = Path(stack.lmod_cmd.read_text(encoding="utf-8").partition("\n")[0].removeprefix("#!").strip())
    compiler = lua.with_name(lua.name.replace("lua", "luac"))
    if not compiler.exists():
        return stack
    files = [path for path in (compiler, *sorted(top.rglob("*"))) if path.is_file()]
    times = "".join(f"{path} {path.stat().st_mtime_ns}\n" for path in files)
    key = hashlib.sha256(times.encode() + Path(__file__).read_bytes())
    copy = stack.root / "cache" / "lmod" / key.hexdigest()[:16]
    if not copy.exists():
        _make(copy, top, lua, compiler)
    return dataclasses.replace(stack, lmod_init=copy / "init/bash", lmod_cmd=copy / "libexec/lmod")


def _make(copy: Path, top: Path, lua: Path, compiler: Path) -> None:
    copy.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=copy.parent) as temporary:
        new = Path(temporary) / "lmod"
        shutil.copytree(top, new)
        for path in (new / "libexec/lmod", *(path for name in READ for path in (new / name).rglob("*.lua"))):
            done = subprocess.run(
                [compiler, "-o", "/dev/stdout", "--", top / path.relative_to(new)], capture_output=True, check=False
            )
            if done.returncode == 0:  # one is a template
                path.write_bytes(b"#!%s\n%s" % (bytes(lua), done.stdout))
        for path in (new / "init").iterdir():
            if path.is_file():
                path.write_text(path.read_text().replace(f"{top}/", f"{copy}/").replace(f"{top}\n", f"{copy}\n"))
        if not copy.exists():  # another process may have made it meanwhile
            new.rename(copy)
