"""A user with packages of their own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.installations import install
from tests.package_states import EINOPS, NEEDY, OTHER_TAG, SHA256, TAG, make_state, write_set

OWN = {
    "name": "PyTorch",
    "tag": TAG,
    "venv": "/user-software/venv/pytorch",
    "python": {"executable": "/opt/python3.12", "version": "3.12", "prefix": "/opt", "activation_scripts": False},
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home directory of a user who installed PyTorch/2.7.1 and added packages in three states."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setenv("HPCMOD_SITE", "generic")
    monkeypatch.setenv("MODULEPATH", str(tmp_path / "modules/all"))
    install(tmp_path, "PyTorch/2.7.1")
    path = tmp_path / "software/PyTorch/2.7.1/record.json"
    record = json.loads(path.read_text())
    record["image"]["sha256"] = SHA256
    record["own_packages"] = OWN
    record["packages"] = [{"name": "torch", "version": "2.7.1"}]
    path.write_text(json.dumps(record))
    states = make_state(1, EINOPS), make_state(2, EINOPS, NEEDY, parent=1), make_state(3, tag=OTHER_TAG)
    write_set(tmp_path / "home/.local/share/hpcmod/packages/PyTorch/default", *states)
    return tmp_path / "home"
