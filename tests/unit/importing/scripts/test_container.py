from __future__ import annotations

import pytest

from hpcmod.importing.carried import Findings
from hpcmod.importing.scripts.container import ContainerSettings, add_binds, add_variable


@pytest.mark.parametrize(
    ("runtime", "value", "expected"),
    [
        ("singularity", "/a,/b:/c:ro,/d.sqsh:/e:image-src=/", ["/a", "/b:/c:ro", "/d.sqsh:/e:image-src=/"]),
        ("docker", "/a:/b:ro,z", ["/a:/b:ro"]),
        ("podman", "type=bind,src=/a,dst=/b,ro=true", ["/a:/b:ro"]),
        ("shifter", "/a:/b;/c:/d", ["/a:/b", "/c:/d"]),
        ("pyxis", "/a:/b:ro+rbind,/c:/c", ["/a:/b:ro", "/c"]),
        ("docker", "/a:/x", ["/a:/x"]),
    ],
)
def test_reads_binds_in_the_syntax_of_each_runtime(runtime: str, value: str, expected: list[str]) -> None:
    settings, said = ContainerSettings(), Findings()
    add_binds(runtime, value, settings, said)
    assert (list(settings.binds.values()), said.left_out) == (expected, [])


@pytest.mark.parametrize("value", ["cache:/c", "", ":/b", "type=tmpfs,target=/x", "/a*:/b", "./x:/b"])
def test_reports_values_that_are_not_binds(value: str) -> None:
    settings, said = ContainerSettings(), Findings()
    add_binds("docker", value, settings, said)
    assert (settings.binds, len(said.left_out)) == ({}, 1)


def test_a_later_bind_hides_an_earlier_one() -> None:
    settings = ContainerSettings()
    add_binds("singularity", "/a:/x,/b:/y,/c:/x", settings, Findings())
    assert list(settings.binds.values()) == ["/b:/y", "/c:/x"]


def test_a_variable_that_an_easyconfig_cannot_have_is_named() -> None:
    settings, said = ContainerSettings(), Findings()
    for name, value in (("A", "1"), ("B", "$X"), ("HOME", "/x"), ("1", "x")):
        add_variable(name, value, settings, said)
    assert (settings.variables, len(said.left_out)) == ({"A": "1"}, 3)
