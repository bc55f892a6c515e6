from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.core.errors import LackingError
from hpcmod.images.programs import require_runtime, without_settings


def test_settings_for_running_containers_are_left_out() -> None:
    inside = {"SINGULARITYENV_LD_PRELOAD": "x.so", "APPTAINERENV_LD_LIBRARY_PATH": "/opt/cray/lib"}
    settings = {"SINGULARITY_NV": "1", "APPTAINER_BINDPATH": "/none", "APPTAINER_MOUNT": "x"}
    kept = {"APPTAINER_CACHEDIR": "/c", "HOME": "/h"}
    assert without_settings({**settings, **inside, **kept}) == kept


def test_a_missing_runtime_is_reported(tmp_path: Path) -> None:
    with pytest.raises(LackingError, match="this needs apptainer or singularity, but none is on PATH"):
        require_runtime({"PATH": str(tmp_path)}, why="this")
