"""The simulation of start times: its event queue, the costs of each way, and its agreement with measurements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.model.nodes.staging import LEAST_GAIN
from tests.simulate.calibration import read_measured
from tests.simulate.events import Clock, Process, Server
from tests.simulate.model import WAYS, Costs, Machine, Staging, start_seconds
from tests.simulate.page import PAGE, compare_rule, render_page
from tests.simulate.scale import compare, render_table, scale_image, simulate_point

COSTS = Costs(
    step=0.1,
    task=0.0,
    container=0.2,
    script=0.1,
    imports=1.6,
    fork=0.1,
    fork_once=1.6,
    shared=0.1,
    shared_once=2.0,
    staging={way: Staging(0.1, 0.0, 0.0, 0.0, 0.0, 0.0) for way in ("tree", "sbcast")},
    image_bytes=1e9,
    start_bytes=0.5e9,
    calls=10,
)
FAST = Machine(cores=8)


def ends(server: Server, clock: Clock, arrivals: list[tuple[float, float]]) -> list[float]:
    """Return when customers that arrive at given times, with given amounts of work, leave the server."""
    left = [0.0] * len(arrivals)

    def visit(number: int) -> Process:
        yield clock.after(arrivals[number][0])
        yield server.use(arrivals[number][1])
        left[number] = clock.now

    for number in range(len(arrivals)):
        clock.start(visit(number))
    clock.run()
    return left


def test_a_server_divides_its_capacity_among_those_who_are_there() -> None:
    clock = Clock()
    assert ends(Server(clock, 2.0), clock, [(0, 4), (1, 2), (10, 1)]) == pytest.approx([3, 3, 10.5])


def test_a_customer_gets_no_more_than_the_limit() -> None:
    clock = Clock()
    assert ends(Server(clock, 8.0, limit=1.0), clock, [(0, 3)] * 4) == pytest.approx([3] * 4)


def test_an_import_next_to_an_idle_core_takes_longer() -> None:
    wakes, two = replace(COSTS, waking=0.5), Machine(cores=2)
    assert start_seconds("plain", 1, 1, wakes, two) == pytest.approx(0.1 + 0.3 + 1.5 * 1.6)
    assert start_seconds("plain", 1, 2, wakes, two) == pytest.approx(0.1 + 0.3 + 1.6)
    assert start_seconds("fork", 1, 2, wakes, two) == pytest.approx(0.1 + 0.3 + 1.5 * 1.6 + 0.1)
    assert start_seconds("fork", 2, 2, wakes, replace(two, one_host=True)) == pytest.approx(0.1 + 0.6 + 1.6 + 0.2)


def test_one_rank_takes_the_sum_of_its_parts() -> None:
    for way in ("plain", "fork", "one-per-node"):
        assert start_seconds(way, 1, 1, COSTS, FAST) == pytest.approx(0.1 + 0.2 + 0.1 + 1.6)


def test_virtual_nodes_share_the_cores_of_one_machine() -> None:
    apart, together = Machine(cores=2), Machine(cores=2, one_host=True)
    assert start_seconds("plain", 8, 2, COSTS, apart) == pytest.approx(2.0)
    assert start_seconds("plain", 8, 2, COSTS, together) == pytest.approx(0.1 + 8 * 1.9)


def test_a_larger_image_is_read_more() -> None:
    assert scale_image(COSTS, 10e9).start_bytes == pytest.approx(5e9)


def test_a_busy_file_system_delays_all_ranks_and_a_node_reads_once() -> None:
    slow = replace(FAST, read=1e9)
    assert start_seconds("plain", 10, 8, COSTS, slow) > 10 * 0.5
    assert start_seconds("plain", 10, 8, COSTS, slow) == pytest.approx(start_seconds("plain", 10, 1, COSTS, slow))
    for operations in (1e2, 1e3):
        busy = replace(FAST, metadata=operations)
        assert start_seconds("plain", 10, 8, COSTS, busy) >= 10 * 8 * COSTS.calls / operations
        assert start_seconds("one-per-node", 10, 8, COSTS, busy) < start_seconds("plain", 10, 8, COSTS, busy)


def test_a_staged_image_is_read_once_and_a_tree_passes_blocks_on() -> None:
    slow = replace(FAST, read=1e9, node_read=1e9, link=10e9)
    staged = {way: [start_seconds(way, nodes, 2, COSTS, slow) for nodes in (1, 60, 600)] for way in ("tree", "sbcast")}
    assert staged["tree"][2] - staged["tree"][0] < 0.1
    assert staged["sbcast"][2] > staged["tree"][2] + 3
    assert start_seconds("plain", 600, 2, COSTS, slow) > 100


def test_a_node_stands_for_others_that_do_the_same() -> None:
    """With all nodes on one host, each is simulated; with enough cores, that is the same as apart."""
    for way in WAYS:
        apart = replace(FAST, read=1e9, node_read=1e9, metadata=100.0, link=1e9)
        together = replace(apart, cores=8.0 * 20, one_host=True)
        seconds = start_seconds(way, 20, 8, COSTS, apart)
        assert start_seconds(way, 20, 8, COSTS, together) == pytest.approx(seconds)


def test_what_was_measured_is_simulated() -> None:
    measured = read_measured()
    lines = compare(measured).splitlines()
    assert len(lines) == 2 + len(measured.points) and {point.nodes for point in measured.points} == {1, 2, 4, 8}
    for point in measured.points:
        assert simulate_point(measured, point) == pytest.approx(point.median, rel=0.25), point


@pytest.mark.golden
def test_the_page_shows_what_was_measured_and_is_simulated(golden: Callable[[Path, str], None]) -> None:
    measured = read_measured()
    golden(PAGE, render_page(PAGE.read_text(encoding="utf-8"), measured))


@pytest.mark.parametrize("size", [0.5e9, 1e9, 10e9, 40e9])
def test_stage_auto_loses_little_to_the_fastest_simulated_way(size: float) -> None:
    for nodes in (2, 4, 16, 64, 256, 1024, 4096, 10000):
        way, chosen, fastest = compare_rule(read_measured().costs, size, nodes)
        assert chosen - fastest <= max(LEAST_GAIN, 0.25 * fastest), (way, nodes)


def test_start_times_are_shown_as_a_table() -> None:
    table = {"plain": {1: 2.0, 1024: 40.0}, "one-per-node": {1: 2.5, 1024: 9.0}}
    assert "| 1,024 | 40.0 | 9.0 |" in render_table(table)
