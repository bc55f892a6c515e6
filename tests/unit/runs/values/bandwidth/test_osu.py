"""Tables of the OSU Micro-Benchmarks."""

from __future__ import annotations

from hpcmod.runs.values.bandwidth.osu import read_osu

BANDWIDTH = "# OSU MPI Bandwidth Test v5.6.2\n# Size      Bandwidth (MB/s)\n1  1.53\n4194304  1785.15\n"
ALL_REDUCE = "# OSU MPI Allreduce Latency Test v7.5\n# Datatype: MPI_INT.\n# Size  Avg Latency(us)\n1048576  1064.92\n"


def test_bandwidth_is_in_units_of_ten_to_the_sixth() -> None:
    last = read_osu(BANDWIDTH).measurements[-1]
    assert (last.collective, last.size, last.ranks, round(last.busbw, 5)) == ("sendrecv", 4 << 20, 2, 1.78515)
    assert round(last.time) == 2350


def test_the_ranks_of_an_all_reduce_are_unknown_and_so_is_its_bus_bandwidth() -> None:
    (one,) = read_osu(ALL_REDUCE).measurements
    assert (one.collective, one.ranks, round(one.algbw, 4), one.busbw) == ("all_reduce", 0, 0.9847, 0.0)


def test_tables_of_unknown_benchmarks_and_other_numbers_are_skipped() -> None:
    text = ALL_REDUCE.replace("Allreduce", "Allgather") + "real 12\n" + BANDWIDTH + "\nreal  0m7.9s\n100 200\n"
    assert [one.size for one in read_osu(text).measurements] == [1, 4 << 20]
