from __future__ import annotations

import pytest

from hpcmod.core.resources import runscript_files
from hpcmod.importing.lumi_scripts import sort_shell_commands
from hpcmod.modules.store import make_scripts
from tests.plans import make_example

ROOT = "%(installdir)s"


def test_no_script_of_hpcmod_is_overwritten() -> None:
    plan = make_example("lumi")
    ours = [path for path, _ in make_scripts(plan, runscript_files()) if path.startswith(("bin/", "runscripts/"))]
    ours = [path for path in ours if not path.startswith("runscripts/lib/")]
    installed = [path for path in ours if path.removeprefix("bin/") not in plan.commands]
    assert {"bin/list-packages", "bin/make-squashfs", "runscripts/init-conda-venv"} <= set(installed)
    found = sort_shell_commands([f"cat >{ROOT}/{path} <<EOF\necho\nEOF" for path in installed])
    assert (found.replaced, found.extra, found.kept) == (installed, [], [])


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        ('singularity exec $SIFX $(basename "$0") "$@"', "wrapped"),
        ("apptainer exec $SIF tool", "wrapped"),
        ("echo 1", "extra"),
        ("singularity exec $SIF python -m tool", "extra"),
    ],
)
def test_a_script_that_runs_its_own_name_in_the_image_is_a_wrapper(script: str, kind: str) -> None:
    found = sort_shell_commands([f"cat >{ROOT}/bin/tool <<EOF\n{script}\nEOF"])
    assert (found.wrapped, found.extra) == ((["tool"], []) if kind == "wrapped" else ([], ["bin/tool"]))


def test_links_follow_what_they_link_to() -> None:
    wrapper = f"cat <<EOF >{ROOT}/bin/tool\nsingularity exec $SIF $(basename $0)\nEOF"
    links = [f"ln -s ./tool {ROOT}/bin/one", f"cd {ROOT}/bin && ln -s tool two", f"ln -s gone {ROOT}/bin/three"]
    found = sort_shell_commands([wrapper, *links])
    assert (found.wrapped, found.extra, found.kept) == (["tool", "one", "two"], ["bin/three"], [links[2]])


def test_packages_of_pip_are_named_without_its_options() -> None:
    found = sort_shell_commands(["pip install --no-cache-dir -r r.txt x==1 y /dir/z"])
    assert found.packages == ["x==1", "y"]
    assert found.others


def test_a_build_is_noticed_and_text_of_a_script_is_not_one() -> None:
    assert sort_shell_commands(["cd x && singularity build --force a.sif b.def"]).builds
    assert not sort_shell_commands([f"cat >{ROOT}/bin/x <<EOF\nsingularity build a b\nEOF"]).builds
