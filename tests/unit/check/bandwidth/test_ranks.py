"""The program that runs on the ranks: our reader parses its tables, and it does not import hpcmod."""

from __future__ import annotations

import ast
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest

from hpcmod.check.bandwidth import ranks
from hpcmod.model.bandwidth.products import read_products
from hpcmod.model.bandwidth.reading import Known, read_bandwidths
from hpcmod.resources import bandwidth_program


class Alone:
    """mpi4py's COMM_WORLD with a single rank; checks that buffers have the right size."""

    rank, size = 0, 1

    def allgather(self, value: Any) -> list[Any]:
        return [value]

    def copy(self, given: Any, result: Any, root: int = 0) -> None:
        assert len(given) == len(result)
        result[:] = given

    def nothing(self, *_: Any) -> None:
        pass

    Allreduce = Reduce = Allgather = Reduce_scatter_block = Alltoall = copy
    Bcast = Barrier = nothing


@pytest.fixture
def mpi(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = types.ModuleType("mpi4py.MPI")
    fake.COMM_WORLD = Alone()  # type: ignore[attr-defined]
    fake.Get_library_version = lambda: "Fake MPI 1.0\n more"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mpi4py", types.ModuleType("mpi4py"))
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", fake)
    monkeypatch.setattr(ranks, "ENOUGH", 0.0)
    monkeypatch.setattr("socket.gethostname", lambda: "nid001")


COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce")


def test_the_tables_are_those_of_nccl_tests(mpi: None, capsys: pytest.CaptureFixture[str]) -> None:
    ranks.measure_on_ranks(["mpi", "16", "64", "2", "20", *COLLECTIVES])
    reading = read_bandwidths(capsys.readouterr().out, Known())
    assert reading.findings == ()
    found = [(one.collective, one.size, one.nodes, one.ranks, one.wrong) for one in reading.measurements]
    assert found == [(name, size, 1, 1, 0) for _ in range(2) for name in COLLECTIVES for size in (16, 32, 64)]
    assert all(one.time > 0 and one.algbw > 0 for one in reading.measurements)


def test_wrong_results_are_counted(
    mpi: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Alone, "Allreduce", lambda self, given, result: None)
    ranks.measure_on_ranks(["mpi", "16", "16", "1", "20", "all_reduce"])
    assert [one.wrong for one in read_bandwidths(capsys.readouterr().out, Known()).measurements] == [4]


def test_what_cannot_be_measured_is_left_out_with_its_reason(
    mpi: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("backend does not support it\nmore")

    monkeypatch.setattr(Alone, "Alltoall", fail)
    monkeypatch.setattr(ranks, "free_memory_of_node", lambda: 200)
    ranks.measure_on_ranks(["mpi", "32", "64", "1", "20", "all_to_all", "broadcast"])
    printed = capsys.readouterr().out
    assert "# all_to_all left out: backend does not support it\n" in printed
    assert "# 64 bytes left out: not enough memory\n" in printed
    assert [one.size for one in read_bandwidths(printed, Known()).measurements] == [32]


class Two:
    """The first of two ranks with a fixed speed."""

    rank, size, kind = 0, 2, "cpu"

    def gather(self, value: Any) -> list[Any]:
        return [value, value]

    def wait(self) -> None:
        pass

    def describe(self) -> tuple[str, str]:
        return "Fake 1.0", "Fake GPU"

    def prepare(self, collective: str, count: int) -> tuple[Callable[[], None], Callable[[], int]]:
        return (lambda: None), (lambda: 0)

    def multiply(self) -> tuple[int, Callable[[], None]]:
        return 10**12, lambda: None


@pytest.mark.parametrize(
    ("collective", "factor"), [("all_reduce", 1.0), ("all_gather", 0.5), ("broadcast", 1.0), ("sendrecv", 1.0)]
)
def test_bandwidths_have_the_factors_of_nccl_tests(
    collective: str, factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranks, "timed", lambda *_: [0.5, 0.5])
    row = ranks.measure(Two(), collective, 1 << 30, 20)  # type: ignore[arg-type]
    time, algbw, busbw, wrong = row.split()[5:]
    seconds = 0.25 if collective == "sendrecv" else 0.5  # sendrecv sends in both directions
    assert (float(time), int(wrong)) == (seconds * 1e6, 0)
    assert float(algbw) == pytest.approx((1 << 30) / seconds / 1e9, rel=1e-3)
    assert float(busbw) == pytest.approx(float(algbw) * factor, rel=1e-3)


def test_ranks_without_a_part_in_a_message_do_not_make_it_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "timed", lambda *_: [0.5, 0.0])
    assert float(ranks.measure(Two(), "sendrecv", 1 << 20, 20).split()[5]) == 0.25e6  # type: ignore[arg-type]


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


def test_each_rank_has_its_speed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(ranks, "ENOUGH", 0.004)
    ranks.measure_products(Two(), 2)  # type: ignore[arg-type]
    (one,) = read_products(capsys.readouterr().out)
    assert (one.rank, one.name, one.runs) == (0, "Fake_GPU", 4) and one.speed > 0


def test_the_program_needs_only_the_standard_library_and_the_image() -> None:
    tree = ast.parse(bandwidth_program())
    imported = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    imported += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert not [name for name in imported if name.partition(".")[0] not in sys.stdlib_module_names]
    assert len(bandwidth_program()) < 1 << 16  # passed as an argument; the limit of Linux is 128 KiB


def test_the_program_runs_on_python_3_8() -> None:
    ast.parse(bandwidth_program(), feature_version=(3, 8))
