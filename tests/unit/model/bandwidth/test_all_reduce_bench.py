"""The output of all_reduce_bench.py as printed by its source code (stas00/ml-engineering, several commits)."""

from __future__ import annotations

from hpcmod.model.bandwidth.all_reduce_bench import read_all_reduce_bench

OLD = """The average bandwidth of all_reduce with a 4.0GB payload (5 trials, 4 ranks):
 algbw: 371.203 GBps (2969.6 Gbps)
 busbw: 556.804 GBps (4454.4 Gbps)
"""
NEW = """The average bandwidth of {} over 32 ranks (5 warmups / 20 trials):

| payload |    busbw   |    algbw   |
| ------: | ---------: | ---------: |
|   32KiB |   0.65GBps |   0.33GBps |
|    1GiB | 365.99GBps | 188.90GBps |

Legend: 1KiB = 2**10Bytes
|    2GiB | 365.99GBps | 188.90GBps |
"""


def test_one_payload_in_units_of_ten() -> None:
    (one,) = read_all_reduce_bench(OLD).measurements
    assert (one.collective, one.size, one.ranks, one.algbw, one.busbw) == ("all_reduce", 4 * 10**9, 4, 371.203, 556.804)
    assert round(one.time) == 10776


def test_the_lines_of_torchrun_have_labels() -> None:
    labelled = "".join(f"[nid001:0]:{line}\n" for line in OLD.splitlines())
    assert read_all_reduce_bench(labelled) == read_all_reduce_bench(OLD)


def test_a_deviation_in_between_is_accepted() -> None:
    (one,) = read_all_reduce_bench(OLD.replace("GBps (2969", "GBps (std: 0.013) (2969")).measurements
    assert one.algbw == 371.203


def test_a_table_of_payloads_ends_with_its_last_row() -> None:
    found = read_all_reduce_bench(NEW.format("all_reduce")).measurements
    assert [(one.size, one.busbw, one.ranks) for one in found] == [(32 << 10, 0.65, 32), (1 << 30, 365.99, 32)]


def test_other_collectives_have_their_name_or_none() -> None:
    named = [read_all_reduce_bench(NEW.format(name)).measurements[0].collective for name in ("all_gather", "gather")]
    assert named == ["all_gather", "all_reduce"]  # the ratio of the bandwidths proves it, whatever its name


def test_bandwidths_without_a_payload_are_skipped() -> None:
    assert read_all_reduce_bench(OLD.partition("\n")[2]).measurements == ()
