"""Lmod on a catalogue of 200 published modules, with and without a spider cache for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tests.bench.bench_published import make_published
from tests.bench.measure import Row, alternate, must
from tests.lmod_cache import describe_cache, update_cache
from tests.stack import Stack

TITLE = "Lmod with and without a spider cache, 200 published modules"

_COMMANDS = (("avail",), ("spider",), ("spider", "torchvision"), ("load", "Name7"))


def rows(stack: Stack, work: Path, *, megabytes: int, rounds: int) -> Iterator[Row]:
    """Measure the commands that users run, and making the cache; `megabytes` is not used."""
    del megabytes
    modules = make_published(work / "catalogue", names=50, versions=4).modules
    env = {**stack.environment(work), "MODULEPATH": str(modules)}
    cached = {**env, "LMOD_RC": str(describe_cache(work / "cache", work / "lmodrc.lua"))}
    took = alternate(rounds, {"update": partial(update_cache, stack, env, work / "cache", modules)})
    size = (work / "cache/spiderT.lua").stat().st_size
    yield Row("making the cache", f"{took['update']:.1f} s", f"{size / 1e6:.1f} MB", "")
    for words in _COMMANDS:
        ways: dict[str, Callable[[], object]] = {
            "without": partial(must, [stack.lmod_cmd, "bash", *words], env={**env, "LMOD_IGNORE_CACHE": "yes"}),
            "with": partial(must, [stack.lmod_cmd, "bash", *words], env=cached),
        }
        took = alternate(rounds, ways)
        ratio = f"{took['with'] / took['without']:.2f}"
        with_cache, without = (f"{1000 * took[name]:.0f} ms" for name in ("with", "without"))
        yield Row(f"module {' '.join(words)}", with_cache, f"without a cache {without}", ratio)
