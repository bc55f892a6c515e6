"""Parsers of external input in lint/, for tests.fuzz."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hpcmod.lint.easyconfigs.lint import lint_easyconfig
from hpcmod.lint.jobs.lint import lint_job
from hpcmod.machine.machine import load_site
from tests.foreign_recipes import LUMI
from tests.fuzz.mutations import mutate
from tests.fuzz.reader import Reader, read_all, reader, text_of, texts

JOBS = ("tests/jobs/desk/seen/wrong/*.sh", "tests/jobs/desk/seen/right/*.sh")

texts("easyconfig to check", lambda data: lint_easyconfig(text_of(data), Path("x.eb")), [LUMI.encode()])


@reader("batch script")
def _batch_script(_: Path) -> Iterator[Reader]:
    lumi = load_site("lumi", {})
    seeds = [data for pattern in JOBS for data in read_all(pattern)]
    yield Reader(lambda data: lint_job(text_of(data), lumi), lambda dice: mutate(dice, dice.choice(seeds)))
