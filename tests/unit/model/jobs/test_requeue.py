from __future__ import annotations

import pytest

from hpcmod.errors import BadInputError
from hpcmod.model.jobs.requeue import Requeue, check_signals, parse_requeue


@pytest.mark.parametrize("text", ["USR1@120", "SIGUSR1@120", "usr1@120"])
def test_a_signal_and_seconds_are_parsed(text: str) -> None:
    assert parse_requeue(text, 3) == Requeue("USR1", 120, 3)


@pytest.mark.parametrize(
    ("text", "limit", "message"),
    [
        ("USR1", 1, "is not SIGNAL@SECONDS"),
        ("USR1@0", 1, "is not SIGNAL@SECONDS"),
        ("USR1@70000", 1, "is not SIGNAL@SECONDS"),
        ("USR1@2m", 1, "is not SIGNAL@SECONDS"),
        ("TERM@60", 1, "TERM would end srun and launchers"),
        ("USR1@60", 0, "would never be requeued"),
    ],
)
def test_refuses_impossible_requeue_requests(text: str, limit: int, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        parse_requeue(text, limit)


def test_the_batch_script_gets_the_signal_alone_and_keeps_its_output() -> None:
    options = [option for option, _ in parse_requeue("USR2@300").directives]
    assert options == ["--signal=B:USR2@300", "--requeue", "--open-mode=append"]


@pytest.mark.parametrize("option", ["--signal=B:USR1@120", "--signal=RB:TERM@5", "--signal=B:USR1"])
def test_a_signal_that_would_end_the_batch_script_is_refused(option: str) -> None:
    with pytest.raises(BadInputError, match="would end the batch script") as caught:
        check_signals([option], None)
    assert caught.value.cure.startswith("Write --requeue-on ")


def test_one_signal_is_enough() -> None:
    check_signals(["--signal=USR1@60", "--requeue"], None)
    with pytest.raises(BadInputError, match="both set a signal"):
        check_signals(["--signal=USR1@60"], Requeue("USR1", 60, 1))
