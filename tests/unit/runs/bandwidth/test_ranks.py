"""The program that runs on the ranks: our reader parses its tables, and it does not import hpcmod.

tests/e2e/test_bench.py runs its collectives with a real PyTorch.
"""

from __future__ import annotations

import ast
import re
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest

from hpcmod.runs.bandwidth import ranks
from hpcmod.runs.bandwidth.steps import bandwidth_program
from hpcmod.runs.values.bandwidth.nccl_tests import read_bandwidths

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce")


class Two:
    """The first of two ranks on one node, which exchange nothing."""

    rank, size, kind = 0, 2, "cpu"
    wrong = 0

    def gather(self, value: Any) -> list[Any]:
        return [value, (1, *value[1:]) if isinstance(value, tuple) else value]

    def wait(self) -> None:
        pass

    def close(self) -> None:
        pass

    def describe(self) -> tuple[str, str]:
        return "Fake 1.0", "Fake GPU"

    def free_memory(self) -> int:
        return 1 << 30

    def prepare(self, collective: str, count: int) -> tuple[Callable[[], None], Callable[[], int]]:
        return (lambda: None), (lambda: self.wrong)


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> type[Two]:
    monkeypatch.setattr(ranks, "TorchRanks", Two)
    monkeypatch.setattr(ranks, "ENOUGH", 0.0)
    monkeypatch.setattr("socket.gethostname", lambda: "nid001")
    return Two


def test_the_tables_are_those_of_nccl_tests(two: type[Two], capsys: pytest.CaptureFixture[str]) -> None:
    ranks.measure_on_ranks(["16", "64", "2", *COLLECTIVES])
    reading = read_bandwidths(capsys.readouterr().out)
    assert reading.findings == ()
    found = [(one.collective, one.size, one.nodes, one.ranks, one.wrong) for one in reading.measurements]
    assert found == [(name, size, 1, 2, 0) for _ in range(2) for name in COLLECTIVES for size in (16, 32, 64)]
    assert all(one.time >= 0 and one.algbw > 0 for one in reading.measurements)


def test_wrong_results_of_all_ranks_are_counted(
    two: type[Two], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Two, "wrong", 4)
    ranks.measure_on_ranks(["16", "16", "1", "all_reduce"])
    assert [one.wrong for one in read_bandwidths(capsys.readouterr().out).measurements] == [8]


def test_what_cannot_be_measured_is_left_out_with_its_reason(
    two: type[Two], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare = Two.prepare

    def fail(self: Two, collective: str, count: int) -> tuple[Callable[[], None], Callable[[], int]]:
        if collective == "all_to_all":
            raise RuntimeError("backend does not support it\nmore")
        return prepare(self, collective, count)

    monkeypatch.setattr(Two, "prepare", fail)
    monkeypatch.setattr(Two, "free_memory", lambda self: 200)
    ranks.measure_on_ranks(["32", "64", "1", "all_to_all", "broadcast"])
    printed = capsys.readouterr().out
    assert "# all_to_all left out: backend does not support it\n" in printed
    assert "# 64 bytes left out: not enough memory\n" in printed
    assert [one.size for one in read_bandwidths(printed).measurements] == [32]


@pytest.mark.parametrize(
    ("collective", "factor"),
    [("all_reduce", 1.0), ("all_gather", 0.5), ("reduce_scatter", 0.5), ("all_to_all", 0.5), ("broadcast", 1.0)],
)
def test_bandwidths_have_the_factors_of_nccl_tests(
    collective: str, factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The summary of doc/PERFORMANCE.md of nccl-tests has them."""
    monkeypatch.setattr(ranks, "timed", lambda *_: [0.25, 0.75])
    row = ranks.measure(Two(), collective, 1 << 30)  # type: ignore[arg-type]
    time, algbw, busbw, wrong = row.split()[5:]
    assert (float(time), int(wrong)) == (0.5e6, 0)
    assert float(algbw) == pytest.approx((1 << 30) / 0.5e9, rel=1e-3)
    assert float(busbw) == pytest.approx(float(algbw) * factor, rel=1e-3)


def test_memory_that_pytorch_keeps_counts_as_free() -> None:
    """Uses a fake GPU, because no machine with a real one runs these tests."""
    kept = [30]

    class Cuda:
        def empty_cache(self) -> None:
            kept.clear()

        def mem_get_info(self) -> tuple[int, int]:
            return 40 - sum(kept), 40

    gpu = ranks.TorchRanks.__new__(ranks.TorchRanks)
    gpu.kind, gpu.torch = "cuda", types.SimpleNamespace(cuda=Cuda())
    assert gpu.free_memory() == 40


def test_the_program_needs_only_the_standard_library_and_the_image() -> None:
    tree = ast.parse(bandwidth_program())
    imported = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    imported += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert not [name for name in imported if name.partition(".")[0] not in sys.stdlib_module_names]
    assert len(bandwidth_program()) < 1 << 16  # passed as an argument; the limit of Linux is 128 KiB


def test_the_program_runs_on_python_3_8() -> None:
    ast.parse(bandwidth_program(), feature_version=(3, 8))


def test_the_program_imports_nothing_from_the_working_directory() -> None:
    first = r"^from __future__.*\n\nimport sys\n\nsys\.path\[:\] = filter\(None, sys\.path\)"
    assert re.search(first, bandwidth_program(), re.MULTILINE)
