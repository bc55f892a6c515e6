from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hpcmod.catalogue.text.site_module import PathList, SiteModule, render_launcher, render_site_module
from hpcmod.core.errors import BadInputError
from hpcmod.core.resources import module_templates
from hpcmod.modules.values.install_record import SYNTAXES
from tests.programs import make_program

PLAIN = SiteModule("1.0", "/site/bin", "/venv/bin/python", ("/cat/easyconfigs", "/ours"))
FULL = SiteModule(
    "1.0",
    '/s "$HOME"/bin',
    "/venv/bin/python",
    ("/c1/easyconfigs", "/ours"),
    images=("/c1/images",),
    easyblocks="/ours/container*.py",
    catalogues=("/c1", "/c2"),
    modules=("/c1/modules/all",),
    site="/etc/site.toml",
    man="/v/share/man",
)


def test_the_lists_end_with_easybuilds_own_default_and_images_come_last() -> None:
    assert FULL.lists == (
        PathList("EASYBUILD_ROBOT_PATHS", ("/c1/easyconfigs", "/ours", "/c1/images"), ending=True),
        PathList("EASYBUILD_INCLUDE_EASYBLOCKS", after=("/ours/container*.py",), separator=",", for_another_eb=True),
        PathList("HPCMOD_CATALOGUE", after=("/c1", "/c2")),
        PathList("MANPATH", after=("/v/share/man",), ending=True),
    )
    assert [one.name for one in PLAIN.lists] == ["EASYBUILD_ROBOT_PATHS"]


@pytest.mark.parametrize("syntax", SYNTAXES)
def test_paths_are_literals_and_unrequested_values_are_not_set(syntax: str) -> None:
    full = render_site_module(FULL, syntax, module_templates())
    assert '\\"' in full
    assert "/etc/site.toml" in full
    plain = render_site_module(PLAIN, syntax, module_templates())
    for name in ("HPCMOD_SITE", "HPCMOD_CATALOGUE", "INCLUDE_EASYBLOCKS", "MODULEPATH", "MANPATH"):
        assert name in full
        assert name not in plain


@pytest.mark.parametrize("syntax", SYNTAXES)
def test_it_begins_as_its_tool_wants_and_starts_no_program(syntax: str) -> None:
    text = render_site_module(FULL, syntax, module_templates())
    assert text.startswith("#%Module\n") == (syntax == "Tcl")
    assert "capture(" not in text
    assert "[exec " not in text


def test_control_characters_are_refused() -> None:
    with pytest.raises(BadInputError):
        SiteModule("1.0", "/a\nb", "/python", ())


def test_a_launcher_becomes_the_program_with_its_arguments(tmp_path: object) -> None:
    script = render_launcher("/bin/echo")
    done = subprocess.run(["sh", "-c", script, "x", "a b", "$(id)", ""], capture_output=True, text=True, check=True)
    assert done.stdout == "a b $(id) \n"
    assert "exec '/my $place/it'\\''s'" in render_launcher("/my $place/it's")


def test_a_launcher_passes_on_the_function_that_says_which_module_tool_is_in_use(tmp_path: Path) -> None:
    script = make_program(tmp_path / "hpcmod", render_launcher("/usr/bin/env"))
    (tmp_path / "init").write_text("exit 9\n")
    environ = {"BASH_FUNC_module%%": "() {  :\n}", "BASH_ENV": f"{tmp_path}/init"}
    assert "BASH_FUNC_module%%=() {  :" in subprocess.check_output([script], env=environ, text=True)
