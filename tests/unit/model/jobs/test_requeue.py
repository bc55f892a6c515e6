from __future__ import annotations

import pytest

from hpcmod.errors import BadInputError
from hpcmod.model.jobs.requeue import Requeue, parse_requeue


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
