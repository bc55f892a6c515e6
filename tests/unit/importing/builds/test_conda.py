from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hpcmod.errors import HpcmodError
from hpcmod.importing.builds.conda import convert_commands, convert_environment
from hpcmod.importing.outcome import ImportedRecipe
from hpcmod.model.recipes.recipe import parse_recipe
from hpcmod.render.recipe import render_recipe
from tests.build_recipes import BUILD, CONDA, ENVIRONMENT, write_sources
from tests.foreign_recipes import write_tree
from tests.key_tables import RESULTS, read_results

ROWS = read_results("import-builds.md", "Environments of conda, cotainr, tykky")


def convert(text: str, root: Path) -> ImportedRecipe:
    write_sources(root)
    if text.startswith(("name:", "channels:")):
        return convert_environment(text, root / "environment.yml")
    (one,) = convert_commands(text, root / "build.sh")
    return one


def test_the_table_has_a_sample_for_every_row() -> None:
    assert [key for key, _ in ROWS] == list(CONDA)
    assert {result for _, result in ROWS} <= set(RESULTS)


@pytest.mark.parametrize(("result", "text"), [(result, text) for key, result in ROWS for text in CONDA[key]])
def test_each_row_of_the_table_is_true(result: str, text: str, tmp_path: Path) -> None:
    if result == "refused":
        with pytest.raises(HpcmodError):
            convert(text, tmp_path)
        return
    one = convert(text, tmp_path)
    found = {"carried": not (one.left_out or one.changed), "changed": one.changed and not one.left_out}
    assert found.get(result, one.left_out), (one.left_out, one.changed)
    parse_recipe(render_recipe(one.text, ())["recipe.toml"], one.name)


def test_a_system_of_cotainr_needs_its_base_image(tmp_path: Path) -> None:
    text = BUILD.replace(" --base-image=docker://ubuntu:24.04", " --system=lumi-g")
    with pytest.raises(HpcmodError, match="--base IMAGE"):
        convert(text, tmp_path)
    (one,) = convert_commands(text, tmp_path / "build.sh", base="docker://quay.io/a/b:1")
    assert one.text.bases[0] == ("amd64", "docker://quay.io/a/b:1")


def test_the_step_gives_the_whole_file_to_conda(tmp_path: Path) -> None:
    one = convert(ENVIRONMENT, tmp_path)
    assert one.name == "env"
    assert one.text.files == (("1/environment.yml", str(tmp_path / "environment.yml")),)
    script = one.text.steps[0].script
    assert "conda env create --quiet --prefix '/opt/conda/envs/env' --file" in script
    assert one.text.steps[0].environment == (("INSTALLER", "{installer}"),)
    assert one.text.search == (("PATH", "/opt/conda/envs/env/bin"),)


@pytest.mark.slow
@pytest.mark.parametrize("has_conda", [True, False])
def test_the_step_runs_conda_and_installs_it_if_it_is_missing(has_conda: bool, tmp_path: Path) -> None:
    """Run the step with fakes of conda, its installer and curl."""
    place, log = tmp_path / "conda", tmp_path / "log"
    conda = f"#!/bin/sh\necho conda $* >>{log}\n"
    installer = f"mkdir -p {place}/bin; printf '%s' '{conda}' >{place}/bin/conda; chmod 755 {place}/bin/conda"
    write_tree(tmp_path, {"bin/curl": f"#!/bin/sh\necho curl $4 >>{log}\ncp {tmp_path}/installer $3\n"})
    write_tree(tmp_path, {"installer": installer, "build/files/1/environment.yml": ENVIRONMENT})
    write_tree(tmp_path, {"conda/bin/conda": conda} if has_conda else {})
    for program in (tmp_path / "bin" / "curl", place / "bin" / "conda"):
        if program.exists():
            program.chmod(0o755)
    script = convert(ENVIRONMENT, tmp_path).text.steps[0].script
    script = script.replace("/opt/hpcmod/build", f"{tmp_path}/build").replace("/opt/conda", str(place))
    environ = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "INSTALLER": "https://e.org/x.sh"}
    done = subprocess.run(["bash", "-c", script], env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = log.read_text().splitlines()
    assert lines[-2] == (
        f"conda env create --quiet --prefix {place}/envs/env --file {tmp_path}/build/files/1/environment.yml"
    )
    assert lines[:-2] == ([] if has_conda else ["curl https://e.org/x.sh"])


@pytest.mark.parametrize("text", ["", "[1]", "name: x\n", "name: x\ndependencies: [[1]]\n", "a: [\n"])
def test_other_files_are_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(HpcmodError):
        convert_environment(text, tmp_path / "environment.yml")
