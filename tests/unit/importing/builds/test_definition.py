from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.errors import HpcmodError
from hpcmod.importing.builds.definition import convert_definition, read_definition
from hpcmod.importing.outcome import ImportedRecipe
from hpcmod.model.recipes.recipe import parse_recipe
from hpcmod.render.recipe import render_recipe
from tests.build_recipes import DEFINITIONS, HEAD, write_sources
from tests.key_tables import RESULTS, read_results

ROWS = read_results("import-builds.md", "Definition files")


def convert(text: str, root: Path) -> ImportedRecipe:
    one = convert_definition(text, write_sources(root) / "app.def")
    parse_recipe(render_recipe(one.text, ())["recipe.toml"], one.name)
    return one


def test_the_table_has_a_sample_for_every_row() -> None:
    assert [key for key, _ in ROWS] == list(DEFINITIONS)
    assert {result for _, result in ROWS} <= set(RESULTS)


@pytest.mark.parametrize(("result", "text"), [(result, text) for key, result in ROWS for text in DEFINITIONS[key]])
def test_each_row_of_the_table_is_true(result: str, text: str, tmp_path: Path) -> None:
    if result == "refused":
        with pytest.raises(HpcmodError):
            convert(text, tmp_path)
        return
    one = convert(text, tmp_path)
    found = {"carried": not (one.left_out or one.changed), "changed": one.changed and not one.left_out}
    assert found.get(result, one.left_out), (one.left_out, one.changed)


def test_what_is_not_carried_is_named_with_its_text(tmp_path: Path) -> None:
    one = convert(f"{HEAD}\n%post\n    true\n\n%setup\n    touch /owned\n%apprun foo\n    exec foo\n", tmp_path)
    lost = "\n".join(one.left_out)
    assert "%setup: it runs on your machine" in lost and "touch /owned" in lost
    assert "%apprun foo: a recipe has no apps" in lost and "exec foo" in lost


def test_commands_run_with_the_shell_of_the_section(tmp_path: Path) -> None:
    plain = convert(f"{HEAD}\n%post\n    true\n", tmp_path).text.steps[0].script
    assert plain.endswith("exec '/bin/sh' '-ec' \"$command\"\n")
    bash = convert(f"{HEAD}\n%post -c /bin/bash\n    true\n", tmp_path).text.steps[0].script
    assert bash.endswith("exec '/bin/bash' '-ec' \"$command\"\n")


def test_sections_and_headers_are_split() -> None:
    headers, sections = read_definition("# c\nBootstrap: docker\nFrom: a:1 # c\n%POST\n x: y\n%files\n a b\n")
    assert headers == {"bootstrap": "docker", "from": "a:1"}
    assert [(one.name, one.text.strip(), one.line) for one in sections] == [("post", "x: y", 4), ("files", "a b", 6)]


def test_text_before_the_first_section_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HpcmodError, match="neither a header"):
        convert(f"{HEAD}\napt-get update\n%post\n true\n", tmp_path)
