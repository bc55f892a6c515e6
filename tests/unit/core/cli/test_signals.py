from __future__ import annotations

import os
import signal

import pytest

from hpcmod.core.cli.signals import terminate_cleanly


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_block_and_a_second_does_not_end_the_tidying_up(number: signal.Signals) -> None:
    tidied = []
    with pytest.raises(SystemExit) as caught, terminate_cleanly():
        try:
            os.kill(os.getpid(), number)
        finally:
            os.kill(os.getpid(), signal.SIGHUP)
            os.kill(os.getpid(), signal.SIGTERM)
            tidied.append("all")
    assert (caught.value.code, tidied) == (128 + number, ["all"])
    assert signal.getsignal(number) is signal.SIG_DFL


def test_signals_ignored_by_nohup_stay_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with terminate_cleanly():
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
