"""Everything that import generates from the peers' recipes, read by the real EasyBuild; and a bare SIF end to end."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.corpus import make_squashfs
from tests.foreign_recipes import write_edf, write_lumi, write_ngc, write_shpc, write_tree
from tests.stack import EasyBuild, ModuleTool, run

pytestmark = pytest.mark.stack

READ = """
import json
import sys
from easybuild.framework.easyconfig.easyconfig import EasyConfig
from easybuild.tools.options import set_up_configuration

set_up_configuration(args=[], silent=True)
for path in sys.argv[1:]:
    ec = EasyConfig(path)
    if not (ec["download_instructions"] or ec["source_urls"]):
        sys.exit(f"{path}: EasyBuild's own easyconfigs say how to get their sources")
    print(json.dumps([ec.short_mod_name, ec["image"] or ec["sources"][0], ec["description"], ec["wrapped_commands"]]))
"""


@pytest.fixture
def imported(eb: EasyBuild, tmp_path: Path) -> list[dict[str, str]]:
    """The table rows of all converted recipes."""
    places = {"shpc": write_shpc, "lumi-eb": write_lumi, "ngc": write_ngc, "edf": write_edf}
    rows = []
    for kind, write in places.items():
        done = eb.hpcmod("import", kind, write(tmp_path / kind), "--output", tmp_path / "out", "--json")
        assert done.returncode == 1, done.stderr  # each kind includes recipes that are refused
        rows += json.loads(done.stdout)["recipes"]
    assert not list(tmp_path.rglob("owned"))
    return [row for row in rows if row["status"] == "converted"]


def test_easybuild_reads_every_converted_recipe_and_its_checks_pass(
    eb: EasyBuild, imported: list[dict[str, str]], tmp_path: Path
) -> None:
    assert len(imported) == 14
    paths = [row["path"] for row in imported]
    (tmp_path / "read.py").write_text(READ)
    done = run([str(eb.stack.python), str(tmp_path / "read.py"), *paths], eb.environment(), tmp_path)
    assert done.returncode == 0, done.stderr
    read = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one[0] for one in read] == [row["module"] for row in imported]
    descriptions = {one[2] for one in read}
    assert 'It\'s "quoted", $(touch owned), `touch owned`, %(name)s and ]] or \\' in descriptions
    assert max(len(one[3] or ()) for one in read) == 310
    checked = eb("--check-contrib", *paths)
    assert checked.returncode == 0, checked.stdout
    assert "FAIL" not in checked.stdout
    assert not list(tmp_path.rglob("owned"))


def test_a_recipe_with_310_aliases_becomes_a_module_that_loads(
    eb: EasyBuild, lmod: ModuleTool, tiny_sif: Path, tmp_path: Path
) -> None:
    eb.hpcmod("import", "shpc", write_shpc(tmp_path / "in") / "ghcr.io/org/openfoam", "--output", tmp_path / "out")
    text = (tmp_path / "out/o/openfoam/openfoam-v2012.eb").read_text()
    assert "image = " in text
    here = re.sub("image = .*", f"image = '{tiny_sif}'", text)
    (tmp_path / "openfoam-v2012.eb").write_text(here)
    installed = eb(tmp_path / "openfoam-v2012.eb")
    assert installed.returncode == 0, installed.stdout
    said = lmod("module load openfoam && command -v foam0 foam309", eb.modules)
    assert len(said.stdout.splitlines()) == 2, said.stderr


def test_makes_a_module_of_a_bare_sif(eb: EasyBuild, lmod: ModuleTool, tiny_sif: Path, tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    shutil.copy(tiny_sif, tmp_path / "images" / "tool_1.2.sif")
    done = eb.hpcmod("import", "sif", tmp_path / "images", "--output", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    installed = eb("--robot", tmp_path / "out", "tool-1.2.eb")
    assert installed.returncode == 0, installed.stdout
    said = lmod("module load tool/1.2 && python -c 'print(6 * 7)'", eb.modules)
    assert said.stdout.split() == ["42"], said.stderr


def test_an_environment_of_cscs_becomes_a_module_with_its_mounts_and_variables(
    eb: EasyBuild, lmod: ModuleTool, tiny_sif: Path, tmp_path: Path
) -> None:
    make_squashfs(tmp_path / "data.sqsh", {"inside": b"of the squashfs"})
    write_tree(tmp_path / "plain", {"file": "of the directory", "own": "of the user"})
    (tmp_path / "base.toml").write_text(
        f"mounts = ['{tmp_path}/data.sqsh:/data:sqsh']\n[env]\nMODE = 'base'\nKEEP = 'k'\n"
    )
    (tmp_path / "tool.toml").write_text(
        f"base_environment = './base.toml'\nimage = 'quay.io#org/tool:1.2'\nmounts = ['{tmp_path}/plain:/plain:ro', "
        "'${SCRATCH}:/scratch']\n[env]\nMODE = \"it's mine\"\nPATH = '${PATH}:/custom/bin'\nNODE = '${WHO}-1'\n"
    )
    done = eb.hpcmod("import", "edf", tmp_path / "tool.toml", "--output", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "out/t/tool/tool-1.2.eb").read_text()
    (tmp_path / "tool-1.2.eb").write_text(re.sub("image = .*", f"image = '{tiny_sif}'", text))
    installed = eb(tmp_path / "tool-1.2.eb")
    assert installed.returncode == 0, installed.stdout
    (before,) = re.findall(r"export SINGULARITY_BINDPATH=\S+", done.stdout)
    after = "; ".join(re.findall(r"export SINGULARITYENV_\S+", done.stdout))
    names, files = ("MODE", "KEEP", "NODE"), ("/data/inside", "/plain/file", "/scratch/own")
    script = (
        f"import os; print(*map(os.environ.get, {names}), *(open(p).read() for p in {files}), "
        "os.environ['PATH'].split(':')[-1], sep='|')"
    )
    line = f'SCRATCH={tmp_path}/plain WHO=me; {before}; module load tool/1.2 && {after}; python -c "{script}"'
    said = lmod(line, eb.modules)
    assert said.returncode == 0, said.stderr
    assert said.stdout.strip() == "it's mine|k|me-1|of the squashfs|of the directory|of the user|/custom/bin", (
        said.stderr
    )
