"""What an easyconfig sets besides its image: the texts, variables, aliases and commands of the module.

EasyBuild's own easyblocks honour these parameters; these tests check that ours do, with the real EasyBuild and each
module tool.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.conftest import installed, modulefiles, write_easyconfig, write_site
from tests.stack import EasyBuild, ModuleTool

pytestmark = pytest.mark.stack

TEXTS = {
    "whatis": ["Description: a toy, %(version)s", "Keywords: toy, {braces}"],
    "usage": "toy --run %(name)s",
    "examples": "toy --example",
    "citing": "Cite [1]",
    "docpaths": ["runscripts"],
    "docurls": ["https://example.org/docs"],
    "site_contacts": "support@example.org",
    "upstream_contacts": ["https://example.org/issues", "mail@example.org"],
    "modextravars": {"TOY_EXTRA": "of %(name)s", "LD_PRELOAD": ""},
    "modextrapaths": {"TOY_PATH": ["bin"]},
    "modaliases": {"toyalias": "echo aliased"},
    "modloadmsg": "loaded",
    "modluafooter": 'setenv("TOY_FOOTER", "lua")',
    "modtclfooter": "setenv TOY_FOOTER tcl",
    "postinstallcmds": ["echo made >%(installdir)s/made-after"],
}
SHOWN = (
    *("toy --run Toy", "toy --example", "Cite [1]", "$EBROOTTOY/runscripts", "https://example.org/docs"),
    *("support@example.org", "https://example.org/issues", "mail@example.org"),
)


def test_a_module_shows_and_sets_what_the_easyconfig_says(
    eb: EasyBuild, toy: Path, module_env: ModuleTool, tmp_path: Path
) -> None:
    lua = module_env.name == "lmod"
    installed(eb, write_easyconfig(tmp_path, **TEXTS), f"--module-syntax={'Lua' if lua else 'Tcl'}")
    said = module_env("module help Toy 2>&1; module whatis Toy 2>&1", eb.modules).stdout
    assert [text for text in (*SHOWN, "a toy, 1.0", "Keywords: toy, {braces}") if text not in said] == []
    variables = '"$TOY_EXTRA|$TOY_FOOTER|${TOY_PATH##*/}|${LD_PRELOAD-unset}|$(cat $EBROOTTOY/made-after)"'
    done = module_env(f"shopt -s expand_aliases; module load Toy; echo {variables}; alias toyalias", eb.modules)
    first, alias = done.stdout.splitlines()
    assert first == f"of Toy|{'lua' if lua else 'tcl'}|bin||made", done.stderr
    assert "echo aliased" in alias
    assert "loaded" in done.stderr


def test_no_commands_or_only_those_that_the_image_has(
    eb: EasyBuild, toy: Path, lmod: ModuleTool, tmp_path: Path
) -> None:
    lacking = write_easyconfig(tmp_path, wrapped_commands={"python": ["python"], "gone": ["/opt/gone"], "x": ["nope"]})
    done = eb(lacking)
    assert done.returncode != 0
    assert "wrapped_commands: toy.sif lacks gone (/opt/gone), x (nope)" in done.stdout
    assert modulefiles(eb) == set()
    site = write_site(tmp_path, '[module]\nfamily = ""\n')
    wrapping = [write_easyconfig(tmp_path, name=name) for name in ("Other", "Third")]
    installed(eb, write_easyconfig(tmp_path, wrapped_commands=[]), *wrapping, HPCMOD_SITE=str(site))
    root = eb.prefix / "software/Toy/1.0/bin"
    scripts = {"start-shell", "list-packages", "make-squashfs", "unmake-squashfs"}
    assert {path.name for path in root.iterdir()} == {"apptainer", "singularity", *scripts}
    said = lmod("module load Other Third Toy; module -t list 2>&1; echo $SIF", eb.modules)
    assert said.returncode == 0, said.stderr
    assert [line for line in said.stdout.split() if "/1.0" in line][:3] == ["Other/1.0", "Third/1.0", "Toy/1.0"]
