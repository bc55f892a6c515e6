"""Tests of the choice of engine. The engines are fakes: scripts that fail as real engines were observed to fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.building.engines.probe import ENGINES, EngineTrial, choose_engine, probe_engines
from hpcmod.core.errors import BadInputError, LackingError
from tests.programs import make_program

FORMS = ("Dockerfile", "definition")


@pytest.fixture
def trial(tmp_path: Path) -> EngineTrial:
    (tmp_path / "bin").mkdir()
    return EngineTrial(tmp_path, "x", {"PATH": str(tmp_path / "bin")})


def stand_in(trial: EngineTrial, name: str, script: str) -> None:
    make_program(trial.at / "bin" / name, f"#!/bin/sh\n{script}\n")


def test_reports_each_engine_that_is_missing_from_path(trial: EngineTrial) -> None:
    found = {one.name: one.why for one in probe_engines(trial.environ, at=trial.at)}
    assert list(found) == list(ENGINES)
    assert found["buildah"] == "buildah not found on PATH"
    assert found["singularity-proot"] == "singularity not found on PATH"
    with pytest.raises(LackingError) as caught:
        choose_engine(None, trial, forms=FORMS)
    assert all(f"  {name}: " in caught.value.message for name in ENGINES) and "HPCMOD_BUILD_DIR" in caught.value.cure


def test_the_error_of_an_engine_becomes_the_finding(trial: EngineTrial) -> None:
    stand_in(trial, "newuidmap", "")
    stand_in(trial, "apptainer", "echo 'FATAL: no user namespaces' >&2; echo 'See docs' >&2; exit 255")
    found = {one.name: one for one in probe_engines(trial.environ, at=trial.at)}
    assert not found["apptainer-fakeroot"].works
    assert found["apptainer-fakeroot"].why == "FATAL: no user namespaces"


def test_an_engine_that_copies_a_file_into_an_image_works(trial: EngineTrial) -> None:
    stand_in(trial, "newuidmap", "")
    stand_in(trial, "apptainer", 'for last; do :; done; test -e "$last" -a -e "$PWD/file"')
    found = {one.name: one for one in probe_engines(trial.environ, at=trial.at)}
    assert (found["apptainer-fakeroot"].works, found["apptainer-fakeroot"].why) == (True, "fakeroot")


def test_each_way_to_keep_layers_is_tried(trial: EngineTrial) -> None:
    stand_in(trial, "buildah", 'echo "Error: $6 is not supported here" >&2; exit 125')
    found = probe_engines(trial.environ, at=trial.at)[0]
    assert not found.works
    assert "overlay: Error: overlay is not supported" in found.why and "vfs: Error: vfs is not" in found.why
    assert "fuse-overlayfs: fuse-overlayfs not found on PATH" in found.why


def test_a_singularity_that_is_apptainer_has_no_proot(trial: EngineTrial) -> None:
    stand_in(trial, "singularity", "echo apptainer version 1.4.5")
    stand_in(trial, "proot", "exit 0")
    found = {one.name: one.why for one in probe_engines(trial.environ, at=trial.at)}
    assert found["singularity-proot"] == "the singularity on PATH is not SingularityCE"


def test_an_unknown_engine_is_reported_with_those_there_are(trial: EngineTrial) -> None:
    with pytest.raises(BadInputError, match="unknown engine 'bulidah'") as caught:
        choose_engine("bulidah", trial, forms=FORMS)
    assert "buildah, podman, apptainer-fakeroot" in caught.value.cure


def test_the_beginning_of_a_name_means_all_its_ways(trial: EngineTrial) -> None:
    with pytest.raises(LackingError) as caught:
        choose_engine("apptainer", trial, forms=FORMS)
    assert "apptainer-fakeroot" in caught.value.message and "apptainer-rootmapped" in caught.value.message
    assert "buildah" not in caught.value.message


def test_an_engine_is_not_asked_to_build_from_what_it_cannot_read(trial: EngineTrial) -> None:
    with pytest.raises(BadInputError, match="builds from a Dockerfile, but this image is built from a definition"):
        choose_engine("buildah", trial, forms=("definition",))
