from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.install.eb import isolated, run_eb


def test_nothing_relative_is_left_to_look_for_programs_and_modules_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = isolated(
        {
            "PATH": ".:/usr/bin::bin:/bin",
            "PYTHONPATH": ":/opt/lib:here",
            "HPCMOD_SITE": "./ours.toml",
            "HPCMOD_CATALOGUE": "cat:/cat",
            "HPCMOD_CACHE": "c",
        }
    )
    assert found == {
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": "/opt/lib",
        "PYTHONSAFEPATH": "1",
        "HPCMOD_SITE": f"{tmp_path}/ours.toml",
        "HPCMOD_CATALOGUE": f"{tmp_path}/cat:/cat",
        "HPCMOD_CACHE": f"{tmp_path}/c",
    }
    assert isolated({"PATH": ".", "HPCMOD_SITE": "lumi"})["HPCMOD_SITE"] == "lumi"
    assert "" not in isolated({"PATH": "."})["PATH"].split(":")


def test_eb_runs_in_a_directory_where_nobody_plants_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "eb"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\npwd; echo "$PYTHONSAFEPATH" "$@"\n')
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    done = run_eb(["a b"], {"PATH": f".:{program.parent}:/usr/bin:/bin"})
    assert done.stdout == "/\n1 a b\n"
