from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.importing.outcome import ImportedEasyconfig, Outcome, Refused
from hpcmod.importing.shpc import import_shpc
from hpcmod.modules.values.spec import parse_commands
from tests.foreign_recipes import SAMTOOLS, SHPC, A, B, write_shpc, write_tree


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, ...]:
    return import_shpc([write_shpc(tmp_path_factory.mktemp("shpc"))])


def made(outcomes: tuple[Outcome, ...], module: str) -> ImportedEasyconfig:
    (found,) = (one for one in outcomes if isinstance(one, ImportedEasyconfig) and one.easyconfig.module == module)
    return found


def reason(outcomes: tuple[Outcome, ...], *words: str) -> str:
    (found,) = (
        one.reason for one in outcomes if isinstance(one, Refused) and all(word in one.origin for word in words)
    )
    return found


def test_a_tag_becomes_an_easyconfig_pinned_to_its_digest(tmp_path: Path) -> None:
    outcomes = import_shpc([write_tree(tmp_path, {"samtools/container.yaml": SAMTOOLS}) / "samtools/container.yaml"])
    easyconfig = made(outcomes, "samtools/1.10").easyconfig
    assert easyconfig.image == f"docker://quay.io/biocontainers/samtools:1.10@{A}"
    assert list(dict(easyconfig.wrapped_commands or ())) == ["samtools", "plot-bamstats"]
    assert easyconfig.homepage == "https://example.org/samtools"
    assert easyconfig.description == 'It\'s "quoted", $(touch owned), `touch owned`, %(name)s and ]] or \\'
    assert made(outcomes, "samtools/1.9--h91753b0_8").easyconfig.image.endswith(B)


def test_the_moving_tag_is_named_after_its_digest(outcomes: tuple[Outcome, ...]) -> None:
    assert made(outcomes, "tool/latest-aaaaaaaa").easyconfig.image == f"docker://docker.io/org/tool:latest@{A}"


def test_a_moving_tag_of_a_known_image_is_a_note_and_one_without_digest_is_refused(
    outcomes: tuple[Outcome, ...],
) -> None:
    assert made(outcomes, "same/v7").notes == ("the tag latest is the same image",)
    assert not any("/same/" in one.origin and one.origin.endswith("latest") for one in outcomes)
    assert "the tag latest without a digest" in reason(outcomes, "/alpine/", "latest")


def test_tags_without_a_digest_are_converted_with_a_note(outcomes: tuple[Outcome, ...]) -> None:
    for version in ("3.18", "3.19", "3.20"):
        one = made(outcomes, f"alpine/{version}")
        assert one.easyconfig.image == f"docker://docker.io/library/alpine:{version}"
        assert "no digest is given" in one.notes[0]


def test_aliases_that_are_not_programs_are_named_and_skipped(outcomes: tuple[Outcome, ...]) -> None:
    one = made(outcomes, "salad/v1")
    assert one.easyconfig.wrapped_commands == (
        ("salad", ("/code/salad",)),
        ("fork", ("/code/salad", "fork")),
        ("R4", ("/usr/bin/R",)),
    )
    lost = "\n".join(one.left_out)
    for words in ("docker_options of the alias salad: -it", "the alias just a text, which runs", "no such file"):
        assert words in lost
    assert one.notes == ()


def test_hundreds_of_aliases_are_all_wrapped(outcomes: tuple[Outcome, ...]) -> None:
    one = made(outcomes, "openfoam/v2012").easyconfig
    assert one.wrapped_commands and len(one.wrapped_commands) == 310
    assert one.wrapped_commands[0] == ("foam0", ("/bin/sh", "/opt/openfoam/bin/foam0"))
    assert one.image.startswith("oras://ghcr.io/org/openfoam:v2012@")


def test_full_names_keep_tools_of_one_name_and_version_apart(tmp_path: Path) -> None:
    full = import_shpc([write_shpc(tmp_path)], full_names=True)
    names = {one.easyconfig.module for one in full if isinstance(one, ImportedEasyconfig)}
    assert {"biocontainers-samtools/1.10", "other-samtools/1.10", "library-alpine/3.18"} <= names


OVERRIDE = "aliases: {new: /opt/new, py: 'python -u'}\nenv: {A: b}\nfeatures: {gpu: true}\n"


def test_an_override_file_replaces_keys_for_its_tag(tmp_path: Path) -> None:
    text = ODD.format(A=A, B=B)
    write_tree(tmp_path, {"tool/container.yaml": text, "tool/v2.yaml": OVERRIDE})
    outcomes = import_shpc([tmp_path])
    assert made(outcomes, "tool/1.0").easyconfig.wrapped_commands == parse_commands(["old"])
    new = made(outcomes, "tool/2.0")
    assert new.easyconfig.wrapped_commands == (("new", ("/opt/new",)), ("py", ("python", "-u")))
    assert new.easyconfig.environment == (("A", "b"),)
    assert "with the overrides for this tag: v2.yaml" in new.notes
    away = write_tree(tmp_path / "away", {"tool/container.yaml": text.replace("v2.yaml", "../../v2.yaml")})
    assert "is not beside the recipe" in made(import_shpc([away]), "tool/2.0").left_out[0]


ODD = """\
docker: quay.io/org/tool
url: https://example.org
description: x
latest: {{"2.0": {A}}}
tags: {{"2.0": {A}, "1.0": {B}}}
aliases: {{old: old}}
overrides: {{"2.0": v2.yaml}}
"""


def test_a_recipe_without_aliases_makes_a_module_without_commands(outcomes: tuple[Outcome, ...]) -> None:
    assert made(outcomes, "tool/latest-aaaaaaaa").easyconfig.wrapped_commands == ()


def test_every_recipe_comes_out_once_a_tag(outcomes: tuple[Outcome, ...]) -> None:
    assert len(outcomes) == 3 + 3 + 3 + 1 + 4 + 1 + 1 + 1 + 4
    assert {name for name in SHPC for one in outcomes if f"/{name}/" in one.origin} == set(SHPC)
