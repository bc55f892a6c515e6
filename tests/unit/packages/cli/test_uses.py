"""What other commands say of a user's packages: job, exec."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.catalogue.cli import run
from tests.calls import hpcmod
from tests.package_states import EINOPS, NEEDY, TAG, make_state, write_set


def test_a_script_keeps_the_choice_of_packages_and_a_rerun_says_what_changed(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sets, script = home / ".local/share/hpcmod/packages/PyTorch", home / "t.sh"
    monkeypatch.setattr("hpcmod.jobs.cli.rerun.test_script", lambda *_, **__: "")
    only = write_set(sets / "only", make_state(1, EINOPS), make_state(2, EINOPS, NEEDY), active=1, name="only")
    asked = ("job", "PyTorch", "-o", str(script), "--", "t.py")
    assert hpcmod(*asked, HPCMOD_PACKAGES="only", HPCMOD_PACKAGES_DIR="relative").exit_code == 0
    lines = script.read_text().splitlines()
    assert lines.index("export HPCMOD_PACKAGES=only") < lines.index("module load PyTorch/2.7.1 || exit")
    assert f"# Packages: {sets}/only/states/1-{TAG}.squashfs" in lines
    assert "your packages are now" not in hpcmod("job", "--rerun", str(script)).stderr
    only.switch(only.read(2))
    said = " ".join(hpcmod("job", "--rerun", str(script)).stderr.split())
    assert f"your packages are now {sets}/only/states/2-{TAG}.squashfs, and were" in said
    (sets / "only").rename(sets / "else")
    for words in (("job", "--rerun", str(script)), asked):
        done = hpcmod(*words, HPCMOD_PACKAGES="only")
        assert (done.exit_code, "HPCMOD_PACKAGES=only: you have no such packages for PyTorch" in done.stderr) == (
            3,
            True,
        )
    assert hpcmod(*asked[:2], *asked[4:], HPCMOD_PACKAGES="else@9").exit_code == 3
    none = hpcmod(*asked[:2], *asked[4:], HPCMOD_PACKAGES="none").stdout
    assert "export HPCMOD_PACKAGES=none" in none and "# Packages" not in none


def test_packages_chosen_for_the_job_only_count_as_those_of_the_environment(home: Path) -> None:
    write_set(home / ".local/share/hpcmod/packages/PyTorch/only", make_state(1, EINOPS), active=1, name="only")
    asked = ("job", "PyTorch")
    given = hpcmod(*asked, "--env", "HPCMOD_PACKAGES=only", "--", "t.py")
    assert (given.exit_code, given.stdout) == (0, hpcmod(*asked, "--", "t.py", HPCMOD_PACKAGES="only").stdout)
    assert "# Packages: " in given.stdout
    typo = hpcmod(*asked, "--env", "HPCMOD_PACKAGES=typo", "--", "t.py")
    assert typo.exit_code == 3 and "HPCMOD_PACKAGES=typo: you have no such packages" in typo.stderr


@pytest.mark.parametrize("words", [("pip", "install", "rich"), ("python", "-m", "pip", "install", "-r", "rich")])
def test_exec_says_what_adds_packages_if_pip_cannot(
    home: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setattr(run, "become", lambda _: None)
    (home.parent / "software/PyTorch/2.7.1/in-environment").touch()
    said = "to add to it: hpcmod add PyTorch rich"
    assert said in " ".join(hpcmod("exec", "PyTorch", *words).stderr.split())
    assert said not in " ".join(hpcmod("exec", "PyTorch", *words[:-2], "list").stderr.split())
