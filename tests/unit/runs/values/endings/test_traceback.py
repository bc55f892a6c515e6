from __future__ import annotations

from hpcmod.runs.values.endings.traceback import Raised, find_exceptions, name_place

TWO_RANKS = """
[rank1]: Traceback (most recent call last):
[rank0]: Traceback (most recent call last):
[rank1]:   File "/home/me/train.py", line 41, in load
[rank0]:   File "/home/me/train.py", line 60, in <module>
[rank0]:     step()
[rank1]:   File "/opt/lib/python3.11/json/decoder.py", line 3, in decode
[rank1]: ValueError: bad sample
[rank0]: KeyError: 'x'
"""


def test_tracebacks_of_two_ranks_are_told_apart() -> None:
    assert list(find_exceptions(TWO_RANKS.split("\n"))) == [
        Raised(7, "[rank1]: ValueError: bad sample".partition(": ")[2], (1,), "train.py:41 in load"),
        Raised(8, "KeyError: 'x'", (0,), "train.py:60"),
    ]


def test_a_chain_has_its_first_exception_first() -> None:
    text = 'Traceback (most recent call last):\n  File "a.py", line 1\nKeyError\n\nDuring handling of the above\n'
    text += 'Traceback (most recent call last):\n  File "a.py", line 2\na.B: x'
    assert [one.text for one in find_exceptions(text.split("\n"))] == ["KeyError", "a.B: x"]


def test_an_ignored_or_cut_traceback_is_left_out() -> None:
    text = 'Exception ignored in: <f>\nTraceback (most recent call last):\n  File "a.py", line 1\nE: x'
    assert list(find_exceptions(text.split("\n"))) == []
    assert list(find_exceptions(["Traceback (most recent call last):", '  File "a.py", line 1'])) == []


def test_a_progress_bar_before_it_does_no_harm() -> None:
    lines = ["50%|###\rTraceback (most recent call last):", '  File "a.py", line 1, in f', "OSError: x"]
    assert [one.place for one in find_exceptions(lines)] == ["a.py:1 in f"]


def test_places() -> None:
    assert name_place("/a/b.py", 3, "f") == "b.py:3 in f"
    assert name_place("b.py", 3, "<module>") == "b.py:3"
