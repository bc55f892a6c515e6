from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest

from hpcmod.catalogue.publishing.candidate import Request, choose_candidate, make_easyconfig
from hpcmod.core.errors import BadInputError, NotFoundError
from hpcmod.modules.values.easyconfig_text import CONSTANTS
from hpcmod.modules.values.python_text import assign_strings
from hpcmod.modules.values.static_values import read_static_values
from tests import corpus

SHA256 = "ab" * 32
OURS = """easyblock = 'ContainerModule'
name = 'Toy'
version = '1.0'
versionsuffix = '-cpu'
homepage = 'https://example.org'
description = 'A toy'
toolchain = SYSTEM
sources = ['toy.sif']
checksums = [
    None,  # not known
]
moduleclass = 'ai'
"""


@pytest.fixture
def easyconfig(tmp_path: Path) -> Path:
    path = tmp_path / "Toy-1.0-cpu.eb"
    path.write_text(OURS)
    (tmp_path / "toy.sif").touch()
    return path


def test_an_easyconfig_says_what_it_makes(easyconfig: Path) -> None:
    found = choose_candidate(Request(str(easyconfig)))
    assert (found.module, found.sif, found.easyconfig) == ("Toy/1.0-cpu", "toy.sif", "Toy-1.0-cpu.eb")
    assert found.reference.path == str(easyconfig.parent / "toy.sif")


def test_an_easyconfig_is_published_as_it_is_but_for_the_checksum(easyconfig: Path) -> None:
    text = make_easyconfig(choose_candidate(Request(str(easyconfig))), sha256=SHA256, reference="/toy.sif")
    assert text == OURS.replace("checksums = [\n    None,  # not known\n]\n", f"checksums = ['{SHA256}']\n")
    assert assign_strings("name = 'x'", "checksums", [SHA256]) == f"name = 'x'\n\nchecksums = ['{SHA256}']\n"


def test_an_easyconfig_whose_image_is_nowhere_is_refused(easyconfig: Path) -> None:
    (easyconfig.parent / "toy.sif").unlink()
    with pytest.raises(BadInputError, match=r"image toy.sif not found in"):
        choose_candidate(Request(str(easyconfig)))


def test_an_easyconfig_that_names_its_image_by_a_path_is_refused(easyconfig: Path) -> None:
    """`eb` would hard-link that file, and its owner could change it later."""
    easyconfig.write_text(OURS.replace("'toy.sif'", f"'{easyconfig.parent}/toy.sif'"))
    with pytest.raises(BadInputError, match="names its image by a path") as caught:
        choose_candidate(Request(str(easyconfig)))
    assert "sources = ['toy.sif']" in caught.value.cure


@pytest.mark.parametrize("kind", ["fifo", "noise", "huge"])
def test_refuses_files_that_are_not_easyconfigs_at_once(easyconfig: Path, kind: str) -> None:
    easyconfig.unlink()
    if kind == "fifo":
        os.mkfifo(easyconfig)
    else:
        with easyconfig.open("wb") as file:
            file.write(b"\xff") if kind == "noise" else file.truncate(1 << 40)
    with pytest.raises(BadInputError, match=r"not a regular file|not text|too large"):
        choose_candidate(Request(str(easyconfig)))


def test_an_easyconfig_that_makes_something_else_is_refused(easyconfig: Path) -> None:
    with pytest.raises(BadInputError, match=r"makes Toy/1.0-cpu, not '2.0'"):
        choose_candidate(Request(str(easyconfig), version="2.0"))


def test_the_labels_of_an_image_name_it_where_no_one_does(tmp_path: Path) -> None:
    labels = '{"org.opencontainers.image.title": "toy", "org.opencontainers.image.version": "1.0"}'
    tree = {**corpus.CONDA_TREE, ".singularity.d/labels.json": labels}
    image = corpus.make_image(tmp_path / "x.sif", tree)
    assert choose_candidate(Request(str(image))).module == "toy/1.0"
    assert choose_candidate(Request(str(image), name="Toy", version="2-a")).module == "Toy/2-a"


@pytest.mark.parametrize(
    ("what", "module"),
    [
        ("docker://localhost:5000/org/tool:1.2-cpu", "tool/1.2-cpu"),
        ("oras://example.org/tool:v3", "tool/v3"),
        ("https://example.org/images/tool_5.0.sif", "tool/5.0"),
        ("oci-archive:/x/tool-6.tar", "tool/6"),
        ("oci:/x/tool:7", "tool/7"),
    ],
)
def test_an_image_is_named_by_its_reference_not_by_labels_which_may_be_inherited(what: str, module: str) -> None:
    def read_labels(_: object) -> dict[str, str]:
        raise AssertionError("not needed")

    made = choose_candidate(Request(what), read_labels=read_labels)
    assert made.module == module
    assert made.guesses == tuple(
        f"the {part} {value} comes from its reference" for part, value in zip(("name", "version"), module.split("/"))
    )


def test_only_a_tag_that_says_no_version_needs_a_label_or_an_option() -> None:
    latest = Request("docker://example.org/tool:latest")
    labelled = choose_candidate(latest, read_labels=lambda _: {"org.opencontainers.image.version": "8.1"})
    assert labelled.module == "tool/8.1"
    assert labelled.guesses[1] == "the version 8.1 comes from its label org.opencontainers.image.version"
    with pytest.raises(BadInputError, match="neither its reference nor its labels give a version"):
        choose_candidate(latest)


@pytest.mark.parametrize(
    ("name", "version"),
    [("../x", "1"), ("Toy", "1/2"), ("Toy", "<html>401</html>"), ("-v", "1"), ("T", ".1")],
)
def test_refuses_invalid_module_names(name: str, version: str) -> None:
    with pytest.raises(BadInputError, match="is not valid in a module name"):
        choose_candidate(Request("docker://localhost:5000/x:1", name=name, version=version))


def test_an_image_of_a_registry_can_be_got_from_there_by_others() -> None:
    reference = f"docker://localhost:5000/x@sha256:{SHA256}"
    candidate = choose_candidate(Request(reference, name="Toy", version="1.0-cpu", description='it\'s "a" toy'))
    text = make_easyconfig(candidate, sha256="cd" * 32, reference=reference)
    values = {node.targets[0].id: node.value for node in ast.parse(text).body if isinstance(node, ast.Assign)}  # type: ignore[attr-defined]
    assert ast.literal_eval(values["source_urls"]) == [reference]
    assert ast.literal_eval(values["sources"]) == ["Toy-1.0-cpu.sif"]
    assert ast.literal_eval(values["description"]) == 'it\'s "a" toy'
    assert len(text.splitlines()) <= 25


@pytest.mark.parametrize("character", ["\x0c", "\u2028"])
def test_the_checksum_lands_where_python_sees_the_assignment(character: str) -> None:
    text = OURS.replace("name = 'Toy'", f"# old{character}new\nname = 'Toy'")
    expected = text.replace("checksums = [\n    None,  # not known\n]\n", f"checksums = ['{SHA256}']\n")
    assert assign_strings(text, "checksums", [SHA256]) == expected


def test_commands_of_an_image_are_written_into_its_easyconfig(tmp_path: Path) -> None:
    asked = ("solve", "mesh=/opt/vendor/bin/mesh")
    request = Request("docker://example.org/solver:3.1", name="Solver", version="3.1", commands=asked)
    text = make_easyconfig(choose_candidate(request), sha256="a" * 64, reference="docker://example.org/solver:3.1")
    known = read_static_values(text, "it", constants=CONSTANTS).known
    assert known["wrapped_commands"] == {"solve": ["solve"], "mesh": ["/opt/vendor/bin/mesh"]}


@pytest.mark.parametrize("command", ["../x", "a=relative/path", "bash", "singularity", "a b"])
def test_a_command_that_cannot_be_wrapped_is_refused(command: str) -> None:
    request = Request("docker://example.org/solver:3.1", name="Solver", version="3.1", commands=(command,))
    with pytest.raises(BadInputError, match=r"^--command: ") as refused:
        choose_candidate(request)
    assert "--command NAME=PROGRAM" in refused.value.cure


def test_an_easyconfig_names_its_own_commands() -> None:
    with pytest.raises(BadInputError, match="--command works with images only"):
        choose_candidate(Request("Solver-3.1.eb", commands=("solve",)))


@pytest.mark.parametrize("name", ["nosuch.sif", "./nosuch.sif", "nosuch.eb"])
def test_a_missing_file_is_not_found(name: str) -> None:
    with pytest.raises(NotFoundError, match=r"nosuch.*: no such file"):
        choose_candidate(Request(name, name="X", version="1"))
