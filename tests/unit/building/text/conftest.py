from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def golden(golden: Callable[[Path, str], None]) -> Callable[[str, str], None]:
    """Compare a text with the file of the given name in golden/: `golden(name, text)`."""
    return lambda name, text: golden(GOLDEN / name, text)
