from __future__ import annotations

import pytest

from hpcmod.runs.values.endings.statuses import explain_status, parse_outcome, signal_of


@pytest.mark.parametrize(
    ("code", "signal"), [(137, 9), (139, 11), (143, 15), (135, 7), (-9, 9), (1, 0), (255, 0), (128, 0)]
)
def test_a_signal_is_in_an_exit_code(code: int, signal: int) -> None:
    assert signal_of(code) == signal


@pytest.mark.parametrize(
    ("code", "signal", "words"),
    [
        (137, 0, "exit code 137: signal 9 (SIGKILL): killed from outside"),
        (0, 7, "signal 7 (SIGBUS): memory that cannot be provided"),
        (-11, 0, "signal 11 (SIGSEGV): a crash"),
        (127, 0, "exit code 127: a program was not found"),
        (3, 0, "exit code 3: an error code of the program itself"),
        (0, 60, "signal 60 (signal 60): ended by a signal"),
    ],
)
def test_a_status_is_explained(code: int, signal: int, words: str) -> None:
    assert explain_status(code, signal).startswith(words)


def test_outcomes_of_srun_are_read() -> None:
    assert parse_outcome("Exited with exit code 139") == (139, 11)
    assert parse_outcome("Segmentation fault (core dumped)") == (0, 11)
    assert parse_outcome("Out Of Memory") is None
