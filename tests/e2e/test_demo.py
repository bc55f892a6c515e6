"""The README's first command works, and its log in the tutorial is correct."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.transcript import FENCE, tidy, without_times
from tests.stack import CHECKOUT, Done, Stack, run

DEMO = str(CHECKOUT / "dev" / "demo")
PAGE = CHECKOUT / "docs" / "tutorial" / "demo.md"


@pytest.fixture(scope="module")
def demo(stack: Stack, torch_sif: Path) -> Done:
    return run([DEMO], {**os.environ, "HPCMOD_DEV_DIR": str(stack.root)})


@pytest.mark.stack
def test_demo_ends_well_all_four_ranks_agree_and_nothing_is_left_running(demo: Done, stack: Stack) -> None:
    assert demo.returncode == 0, demo.stdout[-3000:] + demo.stderr[-3000:]
    ranks = sorted(line for line in demo.stdout.splitlines() if line.startswith("rank "))
    assert [line.split(",")[0] for line in ranks] == [f"rank {n} of 4 on nid00{n // 2 + 1}" for n in range(4)]
    assert all("sum 10" in line for line in ranks)
    assert not (stack.root / "clusters" / "demo").exists()


@pytest.mark.stack
def test_the_log_in_the_tutorial_is_what_the_demo_prints(
    demo: Done, stack: Stack, golden: Callable[[Path, str], None]
) -> None:
    page = PAGE.read_text()
    shown = FENCE.search(page)
    assert shown is not None, f"{PAGE} has no console block"
    printed = tidy(demo.stdout, str(stack.root))
    if without_times(shown.group()) != without_times(printed):
        golden(PAGE, FENCE.sub(lambda _: printed, page))


@pytest.mark.stack
def test_help_names_every_option_and_an_unknown_one_is_refused(stack: Stack) -> None:
    assert "--clean" in run([DEMO, "--help"], os.environ).stdout
    refused = run([DEMO, "--cleen"], os.environ)
    assert (refused.returncode, "unknown argument: --cleen" in refused.stderr) == (1, True)
