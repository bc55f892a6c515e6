from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpcmod.core.errors import LackingError
from hpcmod.core.progress import ProgressLine
from hpcmod.importing.formats import BUILT_IN, ListedFormat, find_format, list_formats
from tests.importers import add_distribution

CHECKOUT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def clean_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("site_"):
            del sys.modules[name]


def test_every_format_of_hpcmod_loads_and_has_examples() -> None:
    for listed in list_formats():
        assert listed.load().summary.endswith(".")
        assert listed.load().examples


def test_another_distribution_adds_a_format(tmp_path: Path) -> None:
    add_distribution(tmp_path, "site-tools", "site_tools", {"ourlist": "site_tools:FORMAT"})
    listed = find_format("ourlist")
    assert listed == ListedFormat("ourlist", "site_tools:FORMAT", "site-tools")
    assert [one.name for one in list_formats()] == [*BUILT_IN, "ourlist"]
    (tmp_path / "a.list").write_text("samtools 1.10 docker://quay.io/biocontainers/samtools:1.10\n")
    (made,) = listed.run(listed.load(), [tmp_path / "a.list"], ProgressLine)
    assert made.easyconfig.module == "samtools/1.10"  # type: ignore[union-attr]


def test_another_distribution_cannot_replace_a_format_of_hpcmod(tmp_path: Path) -> None:
    add_distribution(tmp_path, "site-tools", "site_tools", {"sif": "site_tools:FORMAT"})
    assert {listed.name for listed in list_formats() if listed.target.startswith("hpcmod.")} == set(BUILT_IN)


@pytest.mark.parametrize(
    ("target", "cause"),
    [
        ("site_missing:FORMAT", "ModuleNotFoundError: No module named 'site_missing'"),
        ("site_tools:NOTHING", "AttributeError: "),
        ("site_tools:OTHER", "site_tools:OTHER is not an ImportFormat"),
        ("site_tools.broken:FORMAT", "ZeroDivisionError: "),
    ],
)
def test_a_format_that_cannot_be_loaded_names_its_distribution(tmp_path: Path, target: str, cause: str) -> None:
    add_distribution(tmp_path, "site-tools", "site_tools", {"ourlist": target})
    listed = find_format("ourlist")
    assert listed is not None
    with pytest.raises(LackingError) as err:
        listed.load()
    assert err.value.message.startswith("the import format ourlist of site-tools does not work: ")
    assert cause in err.value.message
    assert err.value.cure == "Update or uninstall site-tools."


def test_a_format_that_fails_on_a_file_names_its_distribution(tmp_path: Path) -> None:
    add_distribution(tmp_path, "site-tools", "site_tools", {"ourlist": "site_tools:FORMAT"})
    (tmp_path / "a.list").write_text("only-a-name\n")
    listed = find_format("ourlist")
    assert listed is not None
    with pytest.raises(LackingError, match="ourlist of site-tools does not work: ValueError: "):
        list(listed.run(listed.load(), [tmp_path / "a.list"], ProgressLine))


def test_a_format_of_hpcmod_needs_no_search_for_entry_points_and_imports_no_other_format() -> None:
    program = (
        "import importlib.metadata as m, sys\n"
        "m.entry_points = lambda *_, **__: sys.exit('searched')\n"
        "from hpcmod.importing.formats import find_format\n"
        "find_format('ngc').load()\n"
        "print([name for name in sys.modules if name in ('hpcmod.importing.sif', 'hpcmod.importing.shpc', 'yaml')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")
