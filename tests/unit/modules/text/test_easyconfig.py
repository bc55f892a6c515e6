from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcmod.core.errors import BadInputError
from hpcmod.modules.text.easyconfig import render_easyconfig
from hpcmod.modules.values.easyconfig import EasyconfigText, SifOrigin
from hpcmod.modules.values.easyconfig_text import read_named_image
from hpcmod.modules.values.spec import parse_commands
from tests.unit.core.text.test_quote import ANY_TEXT, IN_MEMORY

DIGEST = "sha256:" + "0123456789abcdef" * 4
PLAIN = EasyconfigText("PyTorch", "2.7.1", f"docker://ghcr.io/org/torch@{DIGEST}", "PyTorch for AMD GPUs")
FULL = replace(
    PLAIN,
    versionsuffix="-rocm-6.2.4-singularity",
    image="lumi-pytorch.sif",
    homepage="https://pytorch.org/",
    sif=SifOrigin(("https://example.org/images",), "Ask the site"),
    checksum="a" * 64,
    wrapped_commands=parse_commands(["python", "torchrun"]),
    comments=("made by a test",),
)


def read(text: str) -> dict[str, Any]:
    """Return the parameters as Python reads them."""
    values: dict[str, Any] = {}
    for node in ast.parse(text).body:
        assert isinstance(node, ast.Assign)
        (target,) = node.targets
        values[ast.unparse(target)] = (
            ast.unparse(node.value) if isinstance(node.value, ast.Name) else ast.literal_eval(node.value)
        )
    return values


def untemplated(text: str) -> str:
    """Return what EasyBuild makes of a text without templates: resolve_template in easyconfig.py of framework 5.4.1."""
    return re.sub(r"%(?!%*\(\w+\)s)", "%%", text) % {}


def test_all_that_is_given_is_written_and_the_module_class_last() -> None:
    values = read(render_easyconfig(FULL))
    assert values.pop("toolchain") == "SYSTEM"
    assert values == {
        "easyblock": "ContainerModule",
        "name": "PyTorch",
        "version": "2.7.1",
        "versionsuffix": "-rocm-6.2.4-singularity",
        "homepage": "https://pytorch.org/",
        "description": "PyTorch for AMD GPUs",
        "sources": ["lumi-pytorch.sif"],
        "source_urls": ["https://example.org/images"],
        "download_instructions": "Ask the site",
        "checksums": ["a" * 64],
        "wrapped_commands": ["python", "torchrun"],
        "sanity_check_paths": {"files": ["runscripts/get-master"], "dirs": ["bin"]},
        "enhance_sanity_check": True,
        "moduleclass": "ai",
    }
    assert list(values)[-1] == "moduleclass"
    assert len(render_easyconfig(FULL).splitlines()) <= 25
    assert read(render_easyconfig(PLAIN))["image"] == PLAIN.image


@pytest.mark.parametrize(
    ("image", "why"), [(PLAIN.image, "digest"), ("docker://ghcr.io/org/torch:2", "inject-checksums")]
)
def test_a_missing_checksum_is_explained_in_the_line_above(image: str, why: str) -> None:
    lines = render_easyconfig(replace(PLAIN, image=image)).splitlines()
    assert why in lines[lines.index("checksums = [None]") - 1]


def test_it_says_by_its_name_where_it_is_to_lie() -> None:
    assert FULL.path == "p/PyTorch/PyTorch-2.7.1-rocm-6.2.4-singularity.eb"
    assert FULL.module == "PyTorch/2.7.1-rocm-6.2.4-singularity"
    assert replace(PLAIN, name="4ti2").path.startswith("0/4ti2/")


@settings(IN_MEMORY)
@given(ANY_TEXT)
def test_any_text_is_unchanged(text: str) -> None:
    out = render_easyconfig(replace(PLAIN, description=text, comments=(text,)))
    assert untemplated(read(out)["description"]) == (text or PLAIN.module)
    assert max(map(len, out.split("\n"))) <= 120


@pytest.mark.parametrize("text", ["%(name)s", "%%(name)s", "100%", "%s %d %% %(x)s %%%(y)s", "%(installdir)s/bin"])
def test_templates_of_easybuild_in_a_text_are_text(text: str) -> None:
    assert untemplated(read(render_easyconfig(replace(PLAIN, description=text)))["description"]) == text


@pytest.mark.parametrize("words", [1, 7, 40, 400])
def test_no_line_is_longer_than_120_columns(words: int) -> None:
    commands = (("command-of-it", ("command-of-it",)),) * words
    wanted = replace(PLAIN, description="lorem ipsum's " * words, wrapped_commands=commands)
    out = render_easyconfig(replace(wanted, comments=("said of it " * words,)))
    assert max(map(len, out.splitlines())) <= 120
    assert read(out)["description"] == wanted.description
    assert read(out)["wrapped_commands"] == ["command-of-it"] * words


def test_a_long_comment_is_whole_on_several_lines() -> None:
    text = "not carried over: " + " ".join(f"word{number}" for number in range(60)) + " " + "x" * 300
    lines = render_easyconfig(replace(PLAIN, comments=(text,))).partition("easyblock")[0].splitlines()
    assert max(map(len, lines)) <= 120
    assert all(line.startswith("# ") for line in lines)
    assert "".join("".join(line[2:].split()) for line in lines) == "".join(text.split())


def test_binds_and_the_mode_of_the_host_libraries_are_parameters() -> None:
    values = read(render_easyconfig(replace(PLAIN, bind_paths=("/a:/b:ro", "/c"), netstack="off")))
    assert (values["bind_paths"], values["netstack"]) == (["/a:/b:ro", "/c"], "off")


LONG = ANY_TEXT.map(lambda text: text * (1 + 200 // (len(text) or 200)))


@settings(IN_MEMORY)
@given(st.lists(st.one_of(ANY_TEXT, LONG), min_size=1, max_size=4), LONG)
def test_long_values_of_lists_and_tables_are_broken_and_come_out_as_they_went_in(texts: list[str], key: str) -> None:
    wanted = replace(
        PLAIN,
        image="x.sif",
        sif=SifOrigin(tuple(texts)),
        wrapped_commands=(("python", ("python",)), (key, tuple(texts)), ("short", ("a", *texts))),
        environment=((key, texts[0]), ("A", texts[-1]), ("B", "b")),
    )
    out = render_easyconfig(wanted)
    values = read(out)
    assert max(map(len, out.split("\n"))) <= 120
    assert [untemplated(one) for one in values["source_urls"]] == texts
    commands = {
        untemplated(name): [untemplated(one) for one in run] for name, run in values["wrapped_commands"].items()
    }
    assert commands == {"python": ["python"], key: texts, "short": ["a", *texts]}
    found = {untemplated(name): untemplated(one) for name, one in values["environment"].items()}
    assert found == {key: texts[0], "A": texts[-1], "B": "b"}


def test_a_long_value_of_a_table_is_broken_between_words_and_the_short_ones_share_a_line() -> None:
    environment = (("A", "1"), ("B", "2"), ("FLAGS", "--an-option=of-it " * 7), ("C", "3"))
    out = render_easyconfig(replace(PLAIN, environment=environment))
    assert (
        f"""
environment = {{
    'A': '1', 'B': '2',
    'FLAGS': (
        '{"--an-option=of-it " * 6}'
        '--an-option=of-it '
    ),
    'C': '3',
}}
"""
        in out
    )


def test_a_comment_ends_where_its_line_ends() -> None:
    out = render_easyconfig(replace(PLAIN, comments=("harmless\nimport os\rimport os\u2028import os",)))
    assert "import os" not in [line.strip() for line in out.splitlines()]
    assert set(read(out)) == set(read(render_easyconfig(PLAIN)))


def test_our_own_reader_reads_it() -> None:
    named = read_named_image(render_easyconfig(FULL), "x.eb")
    assert (named.software, named.reference, named.checksum) == ("PyTorch", FULL.image, FULL.checksum)
    assert named.source_urls == FULL.sif.urls


@pytest.mark.parametrize(
    "change",
    [
        *({"name": "../x"}, {"name": ""}, {"name": "a b"}, {"versionsuffix": "/x"}, {"checksum": "abc"}),
        *({"version": "<html>401</html>"}, {"version": "1\n"}, {"version": "-1"}),
    ],
    ids=str,
)
def test_refuses_invalid_file_names(change: dict[str, str]) -> None:
    with pytest.raises(BadInputError):
        replace(PLAIN, **change)


@pytest.mark.parametrize("text", ["a\0b", "a\ud800b"])
def test_refuses_bytes_that_are_not_text(text: str) -> None:
    with pytest.raises(BadInputError):
        render_easyconfig(replace(PLAIN, description=text))


def test_a_name_too_long_for_a_file_is_refused() -> None:
    with pytest.raises(BadInputError, match="characters"):
        replace(PLAIN, version="1" * 250)
