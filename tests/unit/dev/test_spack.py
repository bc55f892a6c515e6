"""The recipes for Spack that dev/release writes, as Python reads them with Spack's directives replaced."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

from tests.stack import CHECKOUT

METADATA = """Metadata-Version: 2.4
Name: hpcmod
Version: 1.2.3
Summary: Container images
License-Expression: GPL-2.0-or-later
Requires-Python: >=3.9
Requires-Dist: easybuild-framework<6,>=4.9.4
Requires-Dist: tomli>=2; python_version < "3.11"
Requires-Dist: lz4>=4; extra == "lz4"

Text
"""


@pytest.fixture
def spack(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(CHECKOUT / "dev/lib"))
    yield import_module("spack")
    sys.modules.pop("spack")


def read(text: str) -> list[tuple[str, ...]]:
    """Return the directives of a recipe, in order; keywords as NAME=VALUE."""
    said: list[tuple[str, ...]] = []

    def directive(name: str) -> Any:
        return lambda *args, **more: said.append((name, *args, *(f"{key}={value}" for key, value in more.items())))

    names = {name: directive(name) for name in ("license", "version", "depends_on")}
    body = re.sub(r"^from spack.*\n", "", text, flags=re.MULTILINE)
    exec(body, {**names, "__file__": "/r/a/b/c/d/package.py", "PythonPackage": object, "Base": object})  # noqa: S102 - a recipe is Python
    return said


def test_the_recipe_has_the_checksum_and_all_that_hpcmod_needs(spack: ModuleType) -> None:
    assert read(spack.render_recipe(METADATA, "hpcmod-1.2.3.tar.gz", "ab")) == [
        ("license", "GPL-2.0-or-later"),
        ("version", "1.2.3", "sha256=ab", "url=file:///r/hpcmod-1.2.3.tar.gz"),
        ("depends_on", "python@3.9:", "type=('build', 'run')"),
        ("depends_on", "py-setuptools@64:", "type=build"),
        ("depends_on", "py-easybuild-framework@4.9.4:5", "type=('build', 'run')"),
        ("depends_on", "py-tomli@2:", "type=('build', 'run')", "when=^python@:3.10"),
    ]


def test_what_spack_lacks_has_recipes(spack: ModuleType) -> None:
    framework = spack.render_added("easybuild-framework", "easybuild_framework-5.4.1.tar.gz", "cd")
    assert "packages.py_easybuild_framework.package import PyEasybuildFramework as Base\n" in framework
    assert read(framework) == [("version", "5.4.1", "sha256=cd")]
    grammar = spack.render_added("tree-sitter-bash", "tree_sitter_bash-0.25.1.tar.gz", "ef")
    assert "class PyTreeSitterBash(PythonPackage):" in grammar
    assert read(grammar)[0] == ("version", "0.25.1", "sha256=ef")
