"""Tests of the choice of engine. The engines are fakes: scripts that fail as real engines were observed to fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.building.engines.probe import ENGINES, EngineTrial, choose_engine
from hpcmod.core.errors import BadInputError, LackingError
from tests.programs import make_program

FORMS = ("Dockerfile", "definition")


@pytest.fixture
def trial(tmp_path: Path) -> EngineTrial:
    (tmp_path / "bin").mkdir()
    return EngineTrial(tmp_path, "x", {"PATH": str(tmp_path / "bin")})


def stand_in(trial: EngineTrial, name: str, script: str) -> None:
    make_program(trial.at / "bin" / name, f"#!/bin/sh\n{script}\n")


def reasons(trial: EngineTrial, asked: str | None = None) -> dict[str, str]:
    """Return why each engine does not work."""
    with pytest.raises(LackingError) as caught:
        choose_engine(asked, trial, forms=FORMS)
    assert "HPCMOD_BUILD_DIR" in caught.value.cure
    return dict(line.strip().split(": ", 1) for line in caught.value.message.splitlines()[1:])


def test_reports_each_engine_that_is_missing_from_path(trial: EngineTrial) -> None:
    found = reasons(trial)
    assert list(found) == list(ENGINES)
    assert found["buildah"] == "buildah not found on PATH"
    assert found["singularity-proot"] == "singularity not found on PATH"


def test_the_error_of_an_engine_is_its_reason(trial: EngineTrial) -> None:
    stand_in(trial, "newuidmap", "")
    stand_in(trial, "apptainer", "echo 'FATAL: no user namespaces' >&2; echo 'See docs' >&2; exit 255")
    assert reasons(trial)["apptainer-fakeroot"] == "FATAL: no user namespaces"


def test_an_engine_that_copies_a_file_into_an_image_works(trial: EngineTrial) -> None:
    stand_in(trial, "newuidmap", "")
    stand_in(trial, "apptainer", 'for last; do :; done; test -e "$last" -a -e "$PWD/file"')
    assert choose_engine(None, trial, forms=FORMS).name == "apptainer-fakeroot"


def test_each_way_to_keep_layers_is_tried(trial: EngineTrial) -> None:
    stand_in(trial, "buildah", 'echo "Error: $6 is not supported here" >&2; exit 125')
    why = reasons(trial)["buildah"]
    assert "overlay: Error: overlay is not supported" in why and "vfs: Error: vfs is not" in why
    assert "fuse-overlayfs: fuse-overlayfs not found on PATH" in why


def test_a_singularity_that_is_apptainer_has_no_proot(trial: EngineTrial) -> None:
    stand_in(trial, "singularity", "echo apptainer version 1.4.5")
    stand_in(trial, "proot", "exit 0")
    assert reasons(trial)["singularity-proot"] == "the singularity on PATH is not SingularityCE"


def test_an_unknown_engine_is_reported_with_those_there_are(trial: EngineTrial) -> None:
    with pytest.raises(BadInputError, match="unknown engine 'bulidah'") as caught:
        choose_engine("bulidah", trial, forms=FORMS)
    assert "buildah, podman, apptainer-fakeroot" in caught.value.cure


def test_an_engine_is_not_asked_to_build_from_what_it_cannot_read(trial: EngineTrial) -> None:
    with pytest.raises(BadInputError, match="builds from a Dockerfile, but this image is built from a definition"):
        choose_engine("buildah", trial, forms=("definition",))
