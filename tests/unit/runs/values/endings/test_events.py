from __future__ import annotations

import pytest

from hpcmod.runs.values.endings.ending import CAUSE, CONSEQUENCE, Ending
from hpcmod.runs.values.endings.events import EXCEPTION, EXIT, Log, read_events

QUOTA = Ending("quota", CAUSE, "quota", "x", ("Disk quota exceeded",))
TEXT = """2026-11-22 10:00:00 start
[rank2]: Traceback (most recent call last):
[rank2]:   File "/home/me/save.py", line 7, in save
[rank2]: OSError: [Errno 122] Disk quota exceeded
[rank3]: Traceback (most recent call last):
[rank3]:   File "/home/me/save.py", line 9, in load
[rank3]: ValueError: x
srun: error: nid001: task 2: Exited with exit code 1
srun: Terminating StepId=1.0
srun: error: nid001: tasks 0-1: Killed
"""


def test_a_log_has_events_with_rank_place_and_time() -> None:
    found = read_events(Log("a.out", TEXT), [QUOTA])
    assert [(one.rule, one.kind, one.ranks, one.line) for one in found] == [
        ("quota", CAUSE, (2,), 4),
        (EXCEPTION, CAUSE, (3,), 7),
        (EXIT, CAUSE, (2,), 8),
        (EXIT, CONSEQUENCE, (0, 1), 10),
    ]
    assert found[0].place == "save.py:7 in save" and found[0].moment == (11, 22, 10, 0, 0.0)
    assert found[3].signal == 9


def test_the_name_of_a_log_says_its_rank() -> None:
    (found,) = read_events(Log("rccl-rank5.log", "Disk quota exceeded", (5,)), [QUOTA])
    assert found.ranks == (5,)


def test_an_interruption_by_the_user_is_not_reported_as_a_cause() -> None:
    text = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\nKeyboardInterrupt'
    assert [one.kind for one in read_events(Log("a", text), [])] == [CONSEQUENCE]


@pytest.mark.slow
def test_a_flood_of_one_line_is_bounded() -> None:
    assert len(read_events(Log("a", "Disk quota exceeded\n" * 20_000), [QUOTA])) == 5000
