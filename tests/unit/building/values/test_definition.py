from __future__ import annotations

import pytest

from hpcmod.building.values.definition import bases_of, files_of
from hpcmod.core.errors import BadInputError


@pytest.mark.parametrize(
    ("text", "bases"),
    [
        ("Bootstrap: docker\nFrom: h.io/x:1  # the usual one\n%post\n true\n", [("docker", "h.io/x:1")]),
        ("From: base.sif\n  BootStrap : LocalImage\n", [("localimage", "base.sif")]),
        ("Bootstrap: docker\nRegistry: h.io\nNamespace: org\nFrom: x\n", [("docker", "h.io/org/x")]),
        (
            "Bootstrap: docker\nFrom: h.io/x\nStage: one\n%help\nFrom: h.io/good\n\nbootstrap: docker\nFrom: h.io/y\n",
            [("docker", "h.io/x"), ("docker", "h.io/y")],
        ),
        ("Bootstrap: docker\nFrom: a\nBootstrap: scratch\n", [("docker", "a"), ("scratch", "")]),
        ("%post\nFrom: x\n", [("", "")]),
    ],
)
def test_every_base_of_a_definition_file_is_found(text: str, bases: list[tuple[str, str]]) -> None:
    assert bases_of(text) == bases


def test_files_of_this_machine_are_found() -> None:
    text = "%files\n  a.txt /opt/a.txt\n  # none\n 'b c'\n {{ v }}/d\n\n%files from one\n e\n%post\n f\n%files\n*.py"
    assert list(files_of(text)) == ["a.txt", "b c", "*.py"]
    with pytest.raises(BadInputError, match="No closing quotation"):
        list(files_of("%files\n 'a\n"))
