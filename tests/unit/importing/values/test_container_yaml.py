from __future__ import annotations

import sys

import pytest

from hpcmod.core.errors import BadInputError, LackingError
from hpcmod.importing.values.container_yaml import Alias, parse_container_yaml
from tests.foreign_recipes import MANY, ODD_ALIASES, SAMTOOLS, UNPINNED, A, B, C


def test_tags_are_texts_and_each_comes_once_with_its_digest() -> None:
    assert parse_container_yaml(SAMTOOLS, "x").tags == (("1.10", A), ("1.9--h91753b0_8", B), ("latest", C))


def test_text_without_a_digest_is_not_a_digest() -> None:
    assert parse_container_yaml(UNPINNED, "x").tags == (("3.18", ""), ("3.19", ""), ("3.20", ""), ("latest", ""))


def test_aliases_of_either_form_are_read() -> None:
    assert parse_container_yaml(SAMTOOLS, "x").aliases[0] == Alias("samtools", "/usr/local/bin/samtools")
    read = parse_container_yaml(ODD_ALIASES, "x").aliases
    assert read[0] == Alias("salad", "/code/salad", (("singularity_options", "--nv"), ("docker_options", "-it")))
    assert read[-1] == Alias("just a text", "")
    assert len(parse_container_yaml(MANY, "x").aliases) == 310


def test_texts_come_as_they_were_written() -> None:
    read = parse_container_yaml(SAMTOOLS, "x")
    assert read.description == 'It\'s "quoted", $(touch owned), `touch owned`, %(name)s and ]] or \\'
    assert read.environment == (("EMPTY", ""), ("SAM", "a b; $(touch owned)"))
    assert read.features == (("gpu", "true"), ("home", "/home/x"), ("x11", "false"))


def test_names_options_that_no_recipe_has() -> None:
    read = parse_container_yaml(ODD_ALIASES, "x")
    assert (read.unknown, read.scripts, read.overrides) == (
        ("colour",),
        (("singularity_scripts", "post: x.sh"),),
        (("v1", "v1.yaml"),),
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no image source"),
        ("- a\n- b\n", "no image source"),
        ("docker: \n", "no image source"),
        ("docker: {a: b}\n", "no image source"),
        ("docker: a\noras: b\n", "several image sources"),
        ("docker: [\n", "invalid YAML"),
        ("docker: !!python/object/apply:os.system ['touch owned']\n", "invalid YAML"),
        ("{}: [a\n", "invalid YAML"),
        ("? [a, b]\n: c\ndocker: x\n", "invalid YAML"),
        ("docker: \x07\n", "invalid YAML"),
        ("[" * 5000, "nested too deeply"),
        ("docker: x\n" + "#" * (1 << 20), "characters"),
    ],
    ids=range(12),
)
@pytest.mark.slow
def test_refuses_an_invalid_recipe_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(BadInputError, match=why):
        parse_container_yaml(text, "x")


def test_values_of_other_kinds_are_shown_as_such() -> None:
    read = parse_container_yaml("docker: x\ntags: {a: [b], c: {d: e}}\naliases: 7\nenv: [a]\n", "x")
    assert (read.tags, read.aliases, read.environment) == ((("a", "(list)"), ("c", "(dict)")), (), ())


def test_without_pyyaml_it_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(LackingError) as caught:
        parse_container_yaml(SAMTOOLS, "x")
    assert caught.value.cure == "pip install PyYAML"


def test_a_list_of_lists_nine_levels_deep_is_never_written_out() -> None:
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
    for aliases in ("*a11", "{x: *a11}", "[{name: *a11, command: *a11}]"):
        recipe = parse_container_yaml(f"{bomb}docker: org/tool\naliases: {aliases}\nenv: {{A: *a11}}\n", "x")
        assert all(len(one.name + one.command) < 100 for one in recipe.aliases)
        assert recipe.environment == (("A", "(list)"),)
