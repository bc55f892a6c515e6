"""Command lines of other programs: a script that records them replaces the runtime."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.core.errors import HpcmodError
from hpcmod.core.values.reference import ImageReference
from hpcmod.images.programs import pull_from_library, without_settings


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "NOTES": str(tmp_path / "notes")}


def stand_in(tmp_path: Path, name: str, *, status: int = 0) -> None:
    """Put a program on PATH that records its arguments and environment, and ends with a status."""
    program = tmp_path / "bin" / name
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" {name} "$@" "bind=$APPTAINER_BINDPATH" > "$NOTES"\nexit {status}\n')
    program.chmod(0o755)


def noted(environ: dict[str, str]) -> list[str]:
    return Path(environ["NOTES"]).read_text().splitlines()


LIBRARY = ImageReference.parse("library://e/c/n:t")


def test_the_runtime_gets_exact_instructions_but_no_settings_for_running_containers(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    stand_in(tmp_path, "apptainer")
    out = tmp_path / "out.sif"
    pull_from_library(LIBRARY, out, {**environ, "APPTAINER_BINDPATH": "/none"})
    assert noted(environ) == ["apptainer", "pull", "--force", str(out), "library://e/c/n:t", "bind="]
    inside = {"SINGULARITYENV_LD_PRELOAD": "x.so", "APPTAINERENV_LD_LIBRARY_PATH": "/opt/cray/lib"}
    settings = {"SINGULARITY_NV": "1", "APPTAINER_CACHEDIR": "/c", "HOME": "/h", "APPTAINER_MOUNT": "x"}
    kept = without_settings({**settings, **inside})
    assert kept == {"APPTAINER_CACHEDIR": "/c", "HOME": "/h"}


def test_a_failed_program_is_reported_with_how_to_try_it_manually(tmp_path: Path, environ: dict[str, str]) -> None:
    stand_in(tmp_path, "singularity", status=255)
    with pytest.raises(HpcmodError, match="singularity pull failed with status 255") as failed:
        pull_from_library(LIBRARY, tmp_path / "x", environ)
    assert f"{tmp_path}/bin/singularity pull --force" in failed.value.cure
