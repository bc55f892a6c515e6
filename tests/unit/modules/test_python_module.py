from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.core.errors import LackingError
from hpcmod.core.values.facts import Package
from hpcmod.modules.installed import Installed
from hpcmod.modules.python_module import check_python_module
from hpcmod.modules.values.install_record import NO_RECORD, InstallRecord
from tests.programs import make_program

LISTED = InstallRecord(packages=(Package("ipykernel", "7"),))


def container(root: Path, text: str, record: InstallRecord) -> Installed:
    """Return an installation with a fake `in-environment` that prints the answer of a container."""
    make_program(root / "in-environment", f"#!/bin/sh\n{text}\n")
    return Installed("Toy/1.0", root / "1.0.lua", root, record)


def test_a_module_in_the_record_or_in_the_container_is_found(tmp_path: Path) -> None:
    check_python_module(container(tmp_path, "echo unexpected", LISTED), "ipykernel", "ipykernel")
    check_python_module(container(tmp_path, "echo False", NO_RECORD), "ipykernel", "ipykernel")


@pytest.mark.parametrize(
    ("answer", "said"), [("echo True", "has no ipykernel"), ("echo no FUSE >&2; exit 255", "did not start.*255.*FUSE")]
)
def test_distinguishes_a_missing_module_from_a_failed_start(tmp_path: Path, answer: str, said: str) -> None:
    with pytest.raises(LackingError, match=said):
        check_python_module(container(tmp_path, answer, NO_RECORD), "ipykernel", "ipykernel")


def test_an_installation_without_its_program_is_reported_with_the_command_that_restores_it(tmp_path: Path) -> None:
    with pytest.raises(LackingError, match="in-environment is missing") as caught:
        check_python_module(Installed("Toy/1.0", tmp_path / "1.0.lua", tmp_path, LISTED), "ipykernel", "ipykernel")
    assert "hpcmod repair Toy/1.0" in caught.value.cure
