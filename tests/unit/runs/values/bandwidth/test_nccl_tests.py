"""Tables of nccl-tests, all releases: columns by name, blank columns, labels, and other lines of a log."""

from __future__ import annotations

import pytest

from hpcmod.runs.values.bandwidth.nccl_tests import read_bandwidths

HALF = "time   algbw   busbw #wrong"
ROW = "1048576  262144  float  sum  -1"


@pytest.mark.parametrize(
    ("header", "row"),
    [
        pytest.param(
            f"#  size  count  type  redop  root  {HALF}  {HALF}", f"{ROW}  10.5 99.8 174.7 0  9.5 1 2 3", id="2.13"
        ),
        pytest.param(
            "# size count type redop time algbw busbw error time algbw busbw error",
            "1048576 262144 float sum 10.5 99.8 174.7 5e-07 9.5 1 2 5e-07",
            id="no root, error",
        ),
        pytest.param(
            f"# size count type redop {HALF} {HALF}",
            "1048576 262144 float 10.5 99.8 174.7 0 9.5 1 2 N/A",
            id="blank redop",
        ),
        pytest.param(
            "# size count type redop root time algbw busbw #wrong i_min i_max i_p99 i_cv% "
            "time algbw busbw #wrong i_min i_max i_p99 i_cv%",
            f"{ROW} 10.5 99.8 174.7 0 1 2 3 4 9.5 1 2 0 5 6 7 8",
            id="-I",
        ),
        pytest.param(
            "# size count type redop root cputime algbw busbw #wrong cputime algbw busbw #wrong timestamp",
            f"{ROW} 10.5 99.8 174.7 0 9.5 1 2 0 2026-11-23 02:00:00",
            id="-C -S",
        ),
        pytest.param(f"# size count type redop root {HALF}", f"{ROW} 10.5 99.8 174.7 0", id="one half, as ours"),
        pytest.param("", f"{ROW} 10.5 99.8 174.7 0 9.5 1 2 0", id="no header"),
    ],
)
def test_columns_are_those_of_the_header(header: str, row: str) -> None:
    first = read_bandwidths(f"{header}\n{row}\n").measurements[0]
    assert (first.size, first.time, first.algbw, first.busbw, first.in_place) == (1 << 20, 10.5, 99.8, 174.7, False)


def test_both_halves_of_a_row_are_read() -> None:
    found = read_bandwidths(f"{ROW} 10.5 99.8 174.7 0 9.5 100.2 175.4 N/A").measurements
    assert [(one.in_place, one.busbw, one.wrong) for one in found] == [(False, 174.7, 0), (True, 175.4, -1)]


def test_several_tables_have_their_own_collective_and_ranks() -> None:
    tables = [
        f"# Collective test starting: {name}\n# nThread 1 nGpus 1 minBytes 8 maxBytes 8\n"
        + "".join(
            f"#  Rank  {rank} Group  0 Pid 1 on  {host} device  0 [0x0f] NVIDIA\n" for rank, host in enumerate(hosts)
        )
        + f"{ROW} 10.5 9.98 9.98 0\n# Out of bounds values : 0 OK\n"
        for name, hosts in (("all_gather_perf", "ab"), ("alltoall_perf", "aabbc"))
    ]
    text = tables[0] + tables[1]
    found = read_bandwidths(text.replace(f"{ROW} 10.5 9.98 9.98 0", f"{ROW} 10.5 9.98 9.98 0 10.5 9.98 9.98 0"))
    assert {(one.collective, one.nodes, one.ranks) for one in found.measurements} == {
        ("all_gather", 2, 2),
        ("all_to_all", 3, 5),
    }


def test_a_table_without_an_end_keeps_its_collective() -> None:
    text = "".join(
        f"# Collective test starting: {name}_perf\n{ROW} 10.5 9.98 9.98 0 9.5 9.98 9.98 0\n"
        for name in ("all_reduce", "reduce")
    )
    found = [one.collective for one in read_bandwidths(text).measurements if not one.in_place]
    assert found == ["all_reduce", "reduce"]


@pytest.mark.parametrize(
    ("command", "nodes"),
    [
        ("srun -N4 --gpus-per-node=4 all_reduce_perf -b 1M", 4),
        ("$ srun --nodes=2 singularity exec x.sif ./build/all_reduce_perf", 2),
        ("srun -n 8 --ntasks-per-node=4 all_reduce_perf -n 100", 2),
        ("mpirun -np 8 -N 4 all_reduce_perf", 0),  # -N 4 of Open MPI means four ranks per node
    ],
)
def test_the_command_line_names_collective_and_nodes(command: str, nodes: int) -> None:
    (one, _) = read_bandwidths(f"{command}\n{ROW} 10.5 9.98 9.98 0 9.5 9.98 9.98 0").measurements
    assert (one.collective, one.nodes) == ("all_reduce", nodes)


def test_wrong_values_are_a_failure() -> None:
    (finding,) = read_bandwidths("# Out of bounds values : 12 FAILED\n").findings
    assert (finding.level, finding.rule) == ("fail", "wrong-values")


@pytest.mark.parametrize(
    "line", [f"{ROW} a b c d", f"{ROW} 1e999 1 1 0 1e999 1 1 0", "1 2 float", f"{ROW} -1 1 1 0 -1 1 1 0"]
)
def test_lines_that_are_not_rows_are_skipped(line: str) -> None:
    assert read_bandwidths(line).measurements == ()


@pytest.mark.parametrize("label", ["0: ", "12:", " 3: ", "[nid001:0]:", "[node-a:3]: "])
def test_labels_of_ranks_are_removed(label: str) -> None:
    assert len(read_bandwidths(f"{label}{ROW} 10.5 1 1 0 10.5 1 1 0\n{'z' * 5000}").measurements) == 2
