"""Every parser of untrusted bytes returns a value or raises our own error, tested with a few hundred inputs each.

`python -m tests.fuzz` tries a million inputs, or runs for an hour, for each parser.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.reader import prepared
from tests.fuzz.readers import READERS
from tests.fuzz.run import feed

NEVER_REFUSE = {
    *("WWW-Authenticate", "bind list", "batch script", "easyconfig to check", "bandwidth table", "earlier bandwidths"),
    *("log of NCCL", "log of libfabric and MPI", "log of PyTorch", "report of a rank"),
    *("output of GPU tools", "answer of a node"),
    *("output of a run", "answer about ranks", "facts of a job"),
}
"""Readers that accept any text."""


@pytest.mark.filterwarnings("ignore::SyntaxWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("name", READERS)
@pytest.mark.slow
def test_any_input_gives_a_value_or_our_own_error(name: str, tmp_path: Path) -> None:
    with prepared(name, tmp_path) as reader:
        found = feed(reader, name=name, seed=1, inputs=400)
    assert found.inputs == 400
    assert found.accepted > 0
    assert (found.accepted == 400) == (name in NEVER_REFUSE)
