from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.calls import hpcmod
from tests.installations import install
from tests.programs import make_program


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation whose image has ipykernel according to its record."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HPCMOD_SITE", "generic-nvidia")
    monkeypatch.setenv("MODULEPATH", str(tmp_path / "modules/all"))
    install(tmp_path, "PyTorch/2.6")
    found = tmp_path / "software/PyTorch/2.6"
    program(found, "echo unexpected")
    record = json.loads((found / "record.json").read_text())
    (found / "record.json").write_text(json.dumps({**record, "packages": [{"name": "ipykernel", "version": "7"}]}))
    return found


def program(root: Path, text: str) -> None:
    """Write a fake `in-environment`, which would otherwise start the container."""
    make_program(root / "in-environment", f"#!/bin/sh\n{text}\n")


def test_the_kernel_is_installed_listed_and_removed(root: Path, tmp_path: Path) -> None:
    done = hpcmod("kernel", "PyTorch")
    place = tmp_path / "home/.local/share/jupyter/kernels/pytorch-2.6"
    assert done.stdout == f"{place}\n", done.output
    argv = json.loads((place / "kernel.json").read_text())["argv"]
    assert argv[:3] == [str(root / "in-environment"), "exec", "--bind"]
    assert "ready" in hpcmod("kernel", "--list").stdout
    (root / "in-environment").unlink()
    assert "container removed" in hpcmod("kernel", "--list").stdout
    assert hpcmod("kernel", "PyTorch/2.6", "--remove", "--dry-run").stdout == f"{place}\n"
    assert hpcmod("kernel", "--name", "pytorch-2.6", "--remove").exit_code == 0
    assert not place.exists()
    assert hpcmod("kernel", "PyTorch", "--remove").exit_code == 3


@pytest.mark.parametrize(("answer", "said"), [("True", "has no ipykernel"), ("", "did not start")])
def test_a_container_without_ipykernel_gets_no_kernel(root: Path, tmp_path: Path, answer: str, said: str) -> None:
    record = json.loads((root / "record.json").read_text())
    (root / "record.json").write_text(json.dumps({**record, "packages": []}))
    program(root, f"echo {answer}; exit 0")
    done = hpcmod("kernel", "PyTorch")
    assert (done.exit_code, said in done.stderr) == (7, True)
    assert not (tmp_path / "home/.local").exists()
    program(root, "echo False")
    assert hpcmod("kernel", "PyTorch").exit_code == 0


@pytest.mark.parametrize("words", [(), ("--list", "--remove"), ("--remove",)])
def test_incomplete_command_lines_are_refused(words: tuple[str, ...]) -> None:
    assert hpcmod("kernel", *words).exit_code == 2
