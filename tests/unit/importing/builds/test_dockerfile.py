from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.errors import HpcmodError
from hpcmod.importing.builds.dockerfile import convert_dockerfile
from hpcmod.importing.outcome import ImportedRecipe
from hpcmod.model.recipes.recipe import Recipe, parse_recipe
from hpcmod.render.recipe import render_recipe
from tests.build_recipes import DOCKERFILES, FROM, write_sources
from tests.key_tables import RESULTS, read_results

ROWS = read_results("import-builds.md", "Dockerfiles")


def convert(text: str, root: Path) -> ImportedRecipe:
    write_sources(root)
    if text.startswith("# with .dockerignore"):
        (root / ".dockerignore").touch()
    return convert_dockerfile(text, root / "Dockerfile")


def parsed(one: ImportedRecipe) -> Recipe:
    return parse_recipe(render_recipe(one.text, ())["recipe.toml"], one.name)


def test_the_table_has_a_sample_for_every_row() -> None:
    assert [key for key, _ in ROWS] == list(DOCKERFILES)
    assert {result for _, result in ROWS} <= set(RESULTS)


@pytest.mark.parametrize(("result", "text"), [(result, text) for key, result in ROWS for text in DOCKERFILES[key]])
def test_each_row_of_the_table_is_true(result: str, text: str, tmp_path: Path) -> None:
    if result == "refused":
        with pytest.raises(HpcmodError):
            parsed(convert(text, tmp_path))
        return
    one = convert(text, tmp_path)
    found = {"carried": not (one.left_out or one.changed), "changed": one.changed and not one.left_out}
    assert found.get(result, one.left_out), (one.left_out, one.changed)
    parsed(one)


def test_arguments_become_settings_also_of_the_base(tmp_path: Path) -> None:
    one = convert("ARG TAG=12\nFROM quay.io/a/b:${TAG}-x\nARG V=1\nRUN echo $V $TAG\n", tmp_path)
    recipe = parsed(one)
    assert recipe.bases[0] == ("amd64", "docker://quay.io/a/b:{tag}-x")
    assert dict(recipe.settings) == {"tag": "12", "v": "1"}
    assert recipe.steps[0].environment == (("V", "{v}"),)  # TAG is only used in FROM


def test_variables_hold_in_later_steps_and_in_the_image(tmp_path: Path) -> None:
    one = convert(f"{FROM}ENV A=1 PATH=/x:$PATH\nENV PATH=/y:$PATH\nRUN true\nENV A=2\nRUN true\n", tmp_path)
    first, second = (step.script for step in one.text.steps)
    assert 'export A=\'1\'\nexport PATH="/x:${PATH}"\nexport PATH="/y:${PATH}"\n' in first
    assert "export A='2'" in second and "export A='1'" not in second
    assert dict(one.text.environment) == {"A": "2"}
    assert one.text.search == (("PATH", "/x"), ("PATH", "/y"))


@pytest.mark.parametrize("odd", ["'; touch owned; '", "$(touch owned)", '"\n[set]\nx="1', "HPCMOD_END\ntouch owned"])
def test_hostile_text_stays_in_its_place(odd: str, tmp_path: Path) -> None:
    one = convert(f"{FROM}RUN <<EOF\n{odd}\nEOF\nLABEL {odd!r}\nENV A={odd!r}\nRUN true\n", tmp_path)
    recipe = parsed(one)
    assert not recipe.settings
    lines = one.text.steps[0].script.split("\n")
    end = next(line for line in reversed(lines) if line.startswith("HPCMOD_END"))
    assert lines.count(end) == 1
    assert odd.split("\n")[0] in lines


def test_the_recipe_is_named_after_the_file_or_its_directory(tmp_path: Path) -> None:
    (tmp_path / "My Tool").mkdir()
    for name, expected in (("Dockerfile", "my-tool"), ("Dockerfile.gpu", "gpu"), ("x.Dockerfile", "x")):
        assert convert_dockerfile(f"{FROM}RUN true\n", tmp_path / "My Tool" / name).name == expected


@pytest.mark.parametrize("text", ["# escape=`\nFROM a\n", "FROM a b\n", "FROM ${X}\nRUN x\n", "FROM b AS b\n"])
def test_other_files_are_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(HpcmodError):
        convert(text, tmp_path)
