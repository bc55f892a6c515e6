from __future__ import annotations

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.jobs.values.requeue import Requeue, parse_requeue


@pytest.mark.parametrize("text", ["USR1@120", "SIGUSR1@120", "usr1@120"])
def test_a_signal_and_seconds_are_parsed(text: str) -> None:
    assert parse_requeue(text) == Requeue("USR1", 120)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("USR1", "is not SIGNAL@SECONDS"),
        ("USR1@0", "is not SIGNAL@SECONDS"),
        ("USR1@70000", "is not SIGNAL@SECONDS"),
        ("USR1@2m", "is not SIGNAL@SECONDS"),
        ("TERM@60", "TERM would end srun and launchers"),
    ],
)
def test_refuses_impossible_requeue_requests(text: str, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        parse_requeue(text)
