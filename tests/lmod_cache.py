"""Lmod's spider cache for tests and benchmarks."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.stack import Stack


def update_cache(stack: Stack, env: Mapping[str, str], cache: Path, modules: Path) -> None:
    """Create or update the cache of a module directory, with Lmod's own program."""
    program = Path(stack.lmod_cmd).with_name("update_lmod_system_cache_files")
    argv = [str(program), "-d", str(cache), "-t", str(cache / "stamp"), str(modules)]
    subprocess.run(argv, env=env, check=True, capture_output=True)


def describe_cache(cache: Path, file: Path) -> Path:
    """Write the Lmod configuration file that points to a cache; return it."""
    file.write_text(f'scDescriptT = {{ {{ ["dir"] = "{cache}", ["timestamp"] = "{cache}/stamp" }} }}\n')
    return file
