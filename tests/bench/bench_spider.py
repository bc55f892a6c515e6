"""Lmod on 200 published modules and on as many modules of two lines, with and without a spider cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tests.bench.bench_published import make_minimal, make_published
from tests.bench.measure import Row, alternate, must
from tests.lmod_cache import describe_cache, update_cache
from tests.stack import Stack

TITLE = "Lmod with and without a spider cache, 200 published modules"

NAMES, VERSIONS = 50, 4
COMMANDS = (("avail",), ("spider",), ("spider", "Name7"), ("load", "Name7"))


def rows(stack: Stack, work: Path, *, megabytes: int, rounds: int) -> Iterator[Row]:
    """Measure the commands that users run, and making the cache; `megabytes` is not used."""
    del megabytes
    trees = {
        "ours": make_published(work / "catalogue", names=NAMES, versions=VERSIONS).modules,
        "minimal": make_minimal(work / "minimal", names=NAMES, versions=VERSIONS),
    }
    caches = {name: partial(_update, stack, work, name, tree) for name, tree in trees.items()}
    took = alternate(rounds, caches)
    sizes = [f"{(work / f'cache-{name}/spiderT.lua').stat().st_size / 1e6:.1f} MB" for name in trees]
    yield _row("making the cache", took, "", sizes)
    for aim, cached in (("<= 1.2", True), ("<= 2", False)):
        for words in COMMANDS:
            ways: dict[str, Callable[[], object]] = {
                name: partial(must, [stack.lmod_cmd, "bash", *words], env=_environment(stack, work, name, tree, cached))
                for name, tree in trees.items()
            }
            named = f"module {' '.join(words)}, {'cache' if cached else 'no cache'}"
            yield _row(named, alternate(rounds, ways), aim if words == ("avail",) or words == ("spider",) else "")


def _environment(stack: Stack, work: Path, name: str, tree: Path, cached: bool) -> dict[str, str]:
    env = {**stack.environment(work), "MODULEPATH": str(tree)}
    return {**env, "LMOD_RC": str(work / f"{name}.lua")} if cached else {**env, "LMOD_IGNORE_CACHE": "yes"}


def _update(stack: Stack, work: Path, name: str, tree: Path) -> None:
    update_cache(stack, _environment(stack, work, name, tree, False), work / f"cache-{name}", tree)
    describe_cache(work / f"cache-{name}", work / f"{name}.lua")


def _row(what: str, took: dict[str, float], aim: str, sizes: list[str] | None = None) -> Row:
    ours, minimal = (f"{1000 * seconds:.0f} ms" for seconds in took.values())
    sized = (f", {size}" for size in sizes or ("", ""))
    ours, minimal = (f"{text}{more.rstrip(', ')}" for text, more in zip((ours, minimal), sized))
    return Row(what, ours, f"two lines each {minimal}", f"{took['ours'] / took['minimal']:.2f}", aim)
