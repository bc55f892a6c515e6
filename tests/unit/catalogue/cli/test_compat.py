from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.calls import hpcmod
from tests.catalogues import make_catalogue, make_record
from tests.installations import install
from tests.stacks import fabric, glibc, make_stack, mpich, plugin

pytestmark = pytest.mark.usefixtures("image_places")

GOOD = {**glibc(), **fabric("22.1"), **plugin("FABRIC_1.3"), **mpich()}
BAD = {**glibc(), **fabric("20.0"), **mpich("12.3.1", ("libfabric.so.1", "FABRIC_1.8"))}
SLINGSHOT = 'name = "here"\n[network]\ninterfaces = ["hsn0"]\n'


def images(tmp_path: Path) -> tuple[Path, Path]:
    return make_stack(tmp_path / "good.sif", GOOD), make_stack(tmp_path / "bad.sif", BAD)


def test_the_verb_prints_findings_and_verdict_and_exits_with_one_where_it_refuses(tmp_path: Path) -> None:
    good, bad = images(tmp_path)
    fine = hpcmod("compat", good)
    assert (fine.exit_code, fine.stdout.splitlines()[-1]) == (0, f"ok: {good} on generic")
    refused = hpcmod("compat", bad)
    assert (refused.exit_code, refused.stdout.splitlines()[-1]) == (1, f"fail: {bad} on generic")
    assert "\n     The image contains libraries" in refused.stdout
    site = tmp_path / "site.toml"
    site.write_text(SLINGSHOT)
    warned = hpcmod("compat", "--site", site, good)
    assert (warned.exit_code, warned.stdout.splitlines()[-1]) == (0, f"warn: {good} on here")
    assert hpcmod("compat", tmp_path / "none.sif").exit_code == 3


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("Tool", "Tool/1.9"),  # the default, not the highest
        ("Tool/stable", "Tool/1.9"),
        ("Tool/1.1", "no version 1.1 of Tool in any catalogue"),
        ("Tool/1.10", "Tool/1.10"),
        ("Tool/1.2", "no version 1.2 of Tool in any catalogue"),
        ("Tool/1.0", "Tool/1.0: its image was removed"),
        ("tol", "Did you mean Tool?"),
    ],
)
def test_a_container_is_meant_as_by_other_commands(tmp_path: Path, name: str, meant: str) -> None:
    top = tmp_path / "catalogue"
    versions = ("Tool/1.0", "Tool/1.9", "Tool/1.10")
    make_catalogue(top, *(make_record(one, aliases=("stable",) if one == "Tool/1.9" else ()) for one in versions))
    for module in versions:
        install(top, module)
        make_stack(top / "software" / module / "x.sif", GOOD)
    shutil.rmtree(top / "software/Tool/1.0")
    done = hpcmod("compat", name, HPCMOD_CATALOGUE=str(top), MODULEPATH="", HOME=str(tmp_path))
    image = top / "software" / meant / "x.sif"
    assert done.stdout.splitlines()[-1:] == [f"ok: {image} on generic"] if image.exists() else meant in done.stderr


def test_the_verb_speaks_json_with_the_source_of_every_finding(tmp_path: Path) -> None:
    _, bad = images(tmp_path)
    done = hpcmod("compat", "--json", bad)
    answer = json.loads(done.stdout)
    assert done.exit_code == 1
    assert (answer["version"], answer["level"], answer["site"]) == (1, "fail", "generic")
    assert {finding["level"] for finding in answer["findings"]} >= {"fail", "ok"}
    assert all(one["source"] for one in answer["findings"])
    assert answer["facts"]["mpis"][0]["version"] == "12.3.1"
    assert answer["facts"]["fabrics"][0]["release"] == "1.17.0"
