from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result

from hpcmod.catalogue import Catalogue
from hpcmod.jobs.cli.script import MARK
from tests.calls import hpcmod
from tests.catalogues import make_catalogue, make_record
from tests.installations import install

SHA256 = "a" * 64


@pytest.mark.parametrize(("until", "said"), [("", "retired"), ("2026-01-01", "retired"), ("2999-01-01", "gone")])
def test_a_retired_container_is_refused_from_the_day_on_which_it_no_longer_loads(
    until: str, said: str, tmp_path: Path
) -> None:
    catalogue, script = make_retired(tmp_path, until)
    done = rerun(catalogue, script)
    assert done.exit_code == 3, done.output
    assert said in done.stderr


def make_retired(tmp_path: Path, until: str = "") -> tuple[Catalogue, Path]:
    """Write a catalogue with a retired container and the script of a job that used it."""
    catalogue = make_catalogue(tmp_path / "catalogue", make_record("Toy/1.0", state="retired", until=until))
    modulefile = catalogue.modules / "Toy" / "1.0.lua"
    modulefile.parent.mkdir(parents=True, exist_ok=True)
    modulefile.write_text(f'-- Written by hpcmod.\nlocal root = "{catalogue.software}/Toy/1.0"\n')
    head = f"#!/bin/bash\n{MARK}\n# Image: sha256 {SHA256}\n"
    (tmp_path / "old.sh").write_text(f"{head}module use {catalogue.modules}\nmodule load Toy/1.0 || exit\n")
    return catalogue, tmp_path / "old.sh"


def rerun(catalogue: Catalogue, script: Path, *words: str, **environ: str) -> Result:
    return hpcmod(
        "job", "--rerun", str(script), *words, HPCMOD_CATALOGUE=str(catalogue.directory), PATH="/nowhere", **environ
    )


@pytest.mark.parametrize(("sha256", "code"), [(SHA256, 0), ("b" * 64, 3)])
def test_the_users_own_copy_of_the_same_image_replaces_a_retired_container(
    sha256: str, code: int, tmp_path: Path
) -> None:
    catalogue, script = make_retired(tmp_path)
    before = script.read_text()
    record = install(tmp_path / "own", "Toy/1.0").parents[3] / "software/Toy/1.0/record.json"
    written = json.loads(record.read_text())
    written["image"]["sha256"] = sha256
    record.write_text(json.dumps(written))
    own = tmp_path / "own/modules/all"
    done = rerun(catalogue, script, "-o", str(script), MODULEPATH=f"{catalogue.modules}:{own}")
    assert done.exit_code == code, done.output
    if code == 0:
        assert f"module use {catalogue.modules}\nmodule use {own}\nmodule load Toy/1.0 || exit\n" in done.stdout
        assert script.read_text() == done.stdout and Path(f"{script}~").read_text() == before


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The script of an earlier job, whose container is installed; tests and submissions are recorded in `told`."""
    install(tmp_path, "Toy/1.0")
    monkeypatch.setenv("MODULEPATH", str(tmp_path / "modules/all"))
    monkeypatch.setenv("HPCMOD_SITE", "generic")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("hpcmod.jobs.cli.rerun.test_script", lambda *_, **__: "")
    monkeypatch.setattr("hpcmod.jobs.cli.rerun.submit_script", lambda path, options: f"{path} {' '.join(options)}")
    assert hpcmod("job", "Toy", "-t", "5", "-o", "old.sh", "--", "python", "old.py", PATH="/nowhere").exit_code == 0
    return tmp_path / "old.sh"


GIVEN = ("-t", "6", "-J", "new", "--sbatch=--mem=0")


def test_options_of_slurm_given_to_a_rerun_are_in_what_it_prints_writes_and_submits(old: Path) -> None:
    before = old.read_text()
    printed = hpcmod("job", "--rerun", "old.sh", *GIVEN).stdout
    assert printed.count("--time=") == printed.count("--job-name=") == 1
    head, _, rest = printed.partition("\n\n")
    assert head.endswith("\n#SBATCH --job-name=new\n#SBATCH --time=6\n#SBATCH --mem=0")
    assert "module load Toy/1.0" in rest
    assert old.read_text() == before
    assert hpcmod("job", "--rerun", "old.sh", *GIVEN, "-o", "new.sh").exit_code == 0
    assert Path("new.sh").read_text() == printed
    spelt = "--job-name=new --time=6 --mem=0"
    assert hpcmod("job", "--rerun", "old.sh", *GIVEN, "--submit").stdout == f"old.sh {spelt}\n"
    assert old.read_text() == before
    assert hpcmod("job", "--rerun", "new.sh", "-t", "7").stdout == printed.replace(
        "\n#SBATCH --time=6\n#SBATCH --mem=0\n", "\n#SBATCH --mem=0\n#SBATCH --time=7\n"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-N", "2", "--ranks-per-node", "1", "--", "pk.py", "new"), "change PROGRAM, --nodes, --ranks-per-node"),
        (("--launcher", "torchrun", "--env", "A=1", "--salloc"), "--launcher"),
        (("--site", "lumi"), "change --site"),
        (("-t", "soon"), "not a valid Slurm time limit"),
        (("--sbatch=--comment=a b",), "not allowed in a batch script"),
    ],
)
@pytest.mark.parametrize("more", [(), ("--submit",), ("-o", "new.sh")])
def test_a_rerun_refuses_what_it_would_not_follow(
    old: Path, words: tuple[str, ...], said: str, more: tuple[str, ...]
) -> None:
    done = hpcmod("job", "--rerun", "old.sh", *more, *words)
    assert (done.exit_code, done.stdout) == (2, "") and said in " ".join(done.stderr.split()), done.output
    assert not Path("new.sh").exists()
