from __future__ import annotations

import pytest
from packaging.version import Version

from hpcmod.catalogue.values.package_range import has_any, parse_range
from hpcmod.core.values.facts import Package


@pytest.mark.parametrize(
    ("wanted", "version", "holds"),
    [
        ("torch<2.6", "2.5.1+rocm6.2", True),
        ("torch<2.6", "2.6.0", False),
        ("torch<2.6", "2.6.0rc1", True),
        ("torch<2.6", "2.6.0.dev20250101", True),
        ("torch<=2.6", "2.6.0+cpu", True),
        ("torch>2.6", "2.6.0.post1", True),
        ("torch>=2.0,<2.6", "1.13", False),
        ("torch >= 2.0, < 2.10", "2.9.1", True),
        ("torch==2.6.0", "2.6", True),
        ("torch", "0.1", True),
        ("torch>=2.0,<2.7", "2.6.0.rocm61", True),
        ("torch>=2.0", "2.1.0-py3", True),
        ("torch<2.0", "unknown", True),
        ("torch<2.6", "unknown", True),
    ],
)
def test_versions_are_compared_as_python_does(wanted: str, version: str, holds: bool) -> None:
    assert has_any([Package("Torch", version)], [parse_range(wanted)]) is holds


def test_names_are_compared_as_package_indexes_do() -> None:
    assert has_any([Package("Flash_Attn", "1.0")], [parse_range("flash-attn<2")])
    assert not has_any([Package("flash", "1.0")], [parse_range("flash-attn<2")])


@pytest.mark.parametrize("text", ["", "torch<", "torch ~=2", "torch<2.6;x", "torch<2.6,", "<2.6", "to rch<1"])
def test_refuses_invalid_ranges(text: str) -> None:
    with pytest.raises(ValueError, match=r"must look like torch<2\.6"):
        parse_range(text)


def test_versions_are_ordered_as_pip_orders_them() -> None:
    ends = ("", ".dev1", ".dev2", "a1", "a1.dev3", "b2", "rc1", ".post1", ".post2", ".post2.dev1", "-3")
    texts = [f"{start}{end}" for start in ("1.0", "1.0.1", "1.10", "1!0.9") for end in ends]
    for one in texts:
        for other in texts:
            expected = Version(one) < Version(other)
            assert parse_range(f"tool<{other}").has(Package("tool", one)) == expected, (one, other)
