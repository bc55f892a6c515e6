"""Recipes as data: valid ones are accepted, and each mistake in a recipe is reported with its place."""

from __future__ import annotations

from typing import Any

import pytest

from hpcmod.building.shipped import shipped_recipes
from hpcmod.building.values.recipe import check_among, check_value, fill_in, parse_recipe
from hpcmod.core.errors import BadInputError
from tests.json_schemas import fits_schema

RECIPE = """
summary = "A recipe"
with = ["nccl"]
[base]
amd64 = "docker://docker.io/library/debian:{debian}"
[choices]
mpi = ["ompi", "none"]
ofi = ["swap"]
[set]
debian = "12"
libfabric = "1.19.1"
[[search]]
variable = "PATH"
directories = ["/opt/bin"]
when = { mpi = "ompi" }
[[steps]]
component = "libfabric"
sources = { libfabric = "{libfabric}" }
when = { ofi = ["builtin", "swap"] }
environment = { OFI = "{ofi}" }
"""


def faults(text: str) -> str:
    with pytest.raises(BadInputError) as caught:
        parse_recipe(text, "x")
    return caught.value.message


def test_a_recipe_is_its_file() -> None:
    assert fits_schema("recipe", RECIPE)
    recipe = parse_recipe(RECIPE, "mine")
    assert (recipe.name, recipe.summary, recipe.gpu) == ("mine", "A recipe", "none")
    assert dict(recipe.choices) == {"mpi": ("ompi", "none"), "ofi": ("swap",)}
    assert recipe.steps[0].when == (("ofi", ("builtin", "swap")),)
    assert recipe.steps[0].sources == (("libfabric", "{libfabric}"),)
    assert recipe.search_paths[0].when == (("mpi", ("ompi",)),)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("summary", "sumary"), "sumary: unknown key, did you mean summary?"),
        (('"A recipe"', "7"), "summary: expected a string"),
        (("[choices]", "gpu = 1\n[choices]"), "base: expected a string, found 1"),
        (('["ompi", "none"]', '["openmpi"]'), "choices: mpi: expected a list of ompi, mpich, none"),
        (('ofi = ["swap"]', 'off = ["swap"]'), "choices: off: unknown key, did you mean ofi?"),
        (("docker://docker.io/library/debian", "debian"), "base.amd64"),
        (("amd64 =", "x86_64 ="), "base: expected an image reference for each of amd64, arm64"),
        (("debian:{debian}", "debian:{version}"), "unknown key 'version'"),
        (('component = "libfabric"', 'component = "../libfabric"'), "expected the name of a component"),
        (("when = { ofi", "when = { offi"), "steps, number 1: when: offi: unknown key, did you mean ofi?"),
        (('{ mpi = "ompi" }', '{ mpj = "ompi" }'), "search, number 1: when: mpj: unknown key, did you mean mpi?"),
        (('"PATH"', '"FI_PROVIDER"'), "search, number 1: variable: expected PATH or LD_LIBRARY_PATH"),
        (("directories", "directory"), "search, number 1: directory: unknown key, did you mean directories?"),
        (('OFI = "{ofi}"', "OFI = '$(id)'"), "contains characters that are special in a Dockerfile"),
        (('debian = "12"', "debian = '1\"2'"), "contains characters that are special in a Dockerfile"),
        (('debian = "12"', "debian = 12"), "set: expected a string, found 12"),
        (("[[search]]", "[needs]\nindex = 1\n[[search]]"), "needs: expected a string, found 1"),
        (("[[steps]]", "[[stepps]]"), "stepps: unknown key, did you mean steps?"),
        (("[base]", "[base"), "is not valid TOML"),
        (
            ('when = { mpi = "ompi" }', "when = { mpi = 1e999 }"),
            "search, number 1: when: mpi: expected a list",
        ),
        (('when = { ofi = ["builtin", "swap"] }', "when = 7"), "steps, number 1: when: expected an object, found 7"),
        (('["builtin", "swap"]', "[1]"), "steps, number 1: when: ofi: expected a string, found 1"),
        (('directories = ["/opt/bin"]', "directories = [1]"), "search, number 1: directories: expected a string"),
        (('["ompi", "none"]', "[[]]"), "choices: mpi: expected a string"),
        (('with = ["nccl"]', "with = [{}]"), "with: expected a string"),
        (('"docker://docker.io/library/debian:{debian}"', "1"), "base: expected a string, found 1"),
        (("debian:{debian}", "debian:{debian:>9999999999}"), "base.amd64"),
        (("debian:{debian}", "debian:{debian.x}"), "base.amd64"),
        (('component = "libfabric"', 'component = "libfabric\\n"'), "expected the name of a component"),
    ],
)
def test_every_fault_is_reported_with_its_place(change: tuple[str, str], told: str) -> None:
    assert change[0] in RECIPE
    assert told in faults(RECIPE.replace(*change))
    # an editor does not resolve placeholders and references
    assert fits_schema("recipe", RECIPE.replace(*change)) == (told in ("base.amd64", "unknown key 'version'"))


@pytest.mark.parametrize("key", ["search", "steps"])
@pytest.mark.parametrize("value", ["1", "[1]", '"text"', "{ a = 1 }"])
def test_refuses_a_value_that_is_not_a_list_of_tables(key: str, value: str) -> None:
    start, _, _ = RECIPE.partition("[base]")
    middle = RECIPE[len(start) : RECIPE.index("[[search]]")]
    assert f"{key}: expected" in faults(f"{key} = {value}\n{start}{middle}")


def test_an_unknown_name_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(BadInputError, match="no such recipe, did you mean pytorch-cpu"):
        check_among("pytroch-cpu", shipped_recipes(), "no such recipe")


@pytest.mark.parametrize(
    "value", ["a\nb", "a'b", 'a"b', "a$b", "a\\b", "a`b", "a;b", "a&b", "a|b", "a#b", "{a}", "ä", "a\0"]
)
def test_refuses_values_that_a_shell_or_dockerfile_would_interpret(value: str) -> None:
    with pytest.raises(BadInputError, match="contains characters that are special"):
        check_value(value, "--set x:")


@pytest.mark.parametrize("text", ["{0}", "{", "{x!r:{y}}", "{nothing}", "{x:>999999999}", "{x.real}", "x}"])
def test_a_text_with_a_wrong_placeholder_is_refused(text: str) -> None:
    values: dict[str, Any] = {"x": "1"}
    with pytest.raises(BadInputError):
        fill_in(text, values)
