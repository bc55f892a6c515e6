"""The page about Lmod's spider cache, run with real Lmod."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.bench.bench_published import make_published
from tests.lmod_cache import describe_cache
from tests.stack import Done, Stack, run
from tests.walkthroughs import blocks

pytestmark = pytest.mark.stack


def test_the_page_makes_a_cache_that_is_used_and_ignored_once_the_stamp_is_newer(stack: Stack, tmp_path: Path) -> None:
    catalogue = make_published(tmp_path / "appl/containers", names=8, versions=1)
    measure, make, touch = ("\n".join(map(str.strip, one.splitlines())) for one in blocks("spider-cache", "console"))
    (lua,) = blocks("spider-cache", "lua")
    (tmp_path / "lmodrc.lua").write_text(lua.replace("/appl", f"{tmp_path}/appl"))
    env = stack.environment(tmp_path, LMOD_RC=str(tmp_path / "lmodrc.lua"))

    def shell(script: str) -> Done:
        init = f"source {stack.lmod_init}; module use {catalogue.modules}\n"
        return run(["bash", "--norc", "-c", init + script.replace("/appl", f"{tmp_path}/appl")], env, tmp_path)

    assert shell(f"set -e\n{make}\n{measure}").returncode == 0
    assert f"{tmp_path}/appl/lmod-cache/containers" in shell("module --config").stderr
    stamp = tmp_path / "appl/lmod-cache/containers/stamp"
    os.utime(stamp, (0, 0))  # older than the cache by more than the timestamp resolution of any file system
    (catalogue.modules / "New").mkdir()
    (catalogue.modules / "New/1.0.lua").write_text('whatis("published since")\n')
    assert "New/1.0" not in shell("module avail").stderr, "the cache is used"
    assert shell("module load New && module list").returncode == 0, "loading does not need the cache"
    os.utime(stamp.with_name("spiderT.lua"), (0, 0))
    for compiled in stamp.parent.glob("spiderT.luac*"):
        os.utime(compiled, (0, 0))
    assert shell(touch).returncode == 0
    assert "New/1.0" in shell("module avail").stderr
    assert shell(make).returncode == 0
    assert "New/1.0" in shell("module avail").stderr


def test_a_described_cache_names_its_stamp(tmp_path: Path) -> None:
    text = describe_cache(tmp_path / "cache", tmp_path / "lmodrc.lua").read_text()
    assert f'["timestamp"] = "{tmp_path}/cache/stamp"' in text
