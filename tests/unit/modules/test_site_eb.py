from __future__ import annotations

import configparser
import re
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from hpcmod.core import resources
from hpcmod.core.errors import LackingError
from hpcmod.modules.site_eb import eb_environment, find_parts
from tests.programs import make_program
from tests.stack import CHECKOUT

OURS = find_parts().easyblocks
EASYCONFIGS = str(resources.easyconfigs_directory())
FROM_FILE = "include-easyblocks (F) = /site/a.py, /site/b.py\nrobot-paths        (F) = /site/ec, /more"
REASON = "hpcmod does not run with the Python 3.6 of eb, /usr/bin/python3.6: too old"

EB = """#!/bin/bash
echo "$* $EASYBUILD_INCLUDE_EASYBLOCKS $EB_PYTHON" >>{asked}
case $* in
    --show-config) echo '{config}' ;;
    *ContainerModule*) [[ ${{EB_PYTHON:-own}} == {python} ]] || {{ echo "ERROR: import: {reason}" >&2; exit 7; }} ;;
esac
"""
"""A site's `eb`, whose answers are those of the real ones (tests/integration/test_site_eb.py runs these)."""


class SiteEb:
    """An `eb` on PATH, and what it was asked."""

    def __init__(self, directory: Path, config: str = "", python: str = "own") -> None:
        self.asked = directory / "asked"
        text = EB.format(asked=self.asked, config=config, python=python, reason=REASON)
        make_program(directory / "eb", text)
        self.environ = {"PATH": f"{directory}:/usr/bin:/bin"}
        self.said: list[str] = []

    def settings(self, again: bool = False, **more: str) -> Mapping[str, str]:
        self.asked.write_text("")
        return eb_environment({**self.environ, **more}, again=again, tell=self.said.append)


@pytest.mark.parametrize(
    ("config", "own", "include", "robot"),
    [
        pytest.param("", {}, OURS, f"{EASYCONFIGS}:", id="nothing of the site: an empty part is EasyBuild's default"),
        pytest.param(FROM_FILE, {}, f"/site/a.py,/site/b.py,{OURS}", f"{EASYCONFIGS}:/site/ec:/more", id="in a file"),
        pytest.param(
            FROM_FILE,
            {"EASYBUILD_INCLUDE_EASYBLOCKS": "/env/*.py", "EASYBUILD_ROBOT_PATHS": "/env:"},
            f"/env/*.py,{OURS}",
            f"{EASYCONFIGS}:/env:",
            id="in the environment, which wins",
        ),
    ],
)
def test_what_the_site_has_is_kept(tmp_path: Path, config: str, own: dict[str, str], include: str, robot: str) -> None:
    site = SiteEb(tmp_path, config)
    settings = site.settings(**own)
    assert (settings["EASYBUILD_INCLUDE_EASYBLOCKS"], settings["EASYBUILD_ROBOT_PATHS"]) == (include, robot)
    assert not {"PYTHONPATH", "PATH", "EB_PYTHON"} & set(settings) and not site.said
    assert site.settings(**{**own, **settings}) == settings and not site.asked.read_text(), "it is asked once"
    assert site.settings(again=True, **{**own, **settings}) == settings and site.asked.read_text()


def test_an_eb_whose_python_cannot_run_hpcmod_gets_another_and_one_line_says_so(tmp_path: Path) -> None:
    site = SiteEb(tmp_path, python=find_parts().python)
    assert site.settings()["EB_PYTHON"] == find_parts().python
    assert site.said == [f"{REASON}. EB_PYTHON={find_parts().python} lets this eb run with that Python"]
    assert find_parts().python != sys.executable or sys.prefix == sys.base_prefix


def test_an_eb_that_ignores_eb_python_is_started_again_by_the_easyblock(tmp_path: Path) -> None:
    site = SiteEb(tmp_path, python=find_parts().python)
    program = (tmp_path / "eb").read_text().replace("EB_PYTHON:-own", "HPCMOD_EB_PYTHON:-own")
    (tmp_path / "eb").write_text(program)
    assert site.settings()["HPCMOD_EB_PYTHON"] == find_parts().python


def test_an_eb_that_cannot_use_the_easyblock_at_all_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LackingError, match="too old") as caught:
        SiteEb(tmp_path, python="none").settings()
    assert caught.value.cure


def test_the_eb_of_hpcmods_own_environment_only_needs_its_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = SiteEb(tmp_path)
    monkeypatch.setattr("sys.executable", f"{tmp_path}/python3")
    ours = {"EASYBUILD_ROBOT_PATHS": f"{EASYCONFIGS}:", "EB_PYTHON": f"{tmp_path}/python3"}
    assert site.settings() == ours
    for given, kept in ((OURS, ""), (f"/own/*.py,{OURS}", "/own/*.py")):  # as the module of a site without --eb sets it
        assert site.settings(EASYBUILD_INCLUDE_EASYBLOCKS=given) == {**ours, "EASYBUILD_INCLUDE_EASYBLOCKS": kept}
    assert not site.asked.read_text()


def test_the_easyblock_finds_every_library_that_hpcmod_needs() -> None:
    config = configparser.ConfigParser()
    config.read(CHECKOUT / "setup.cfg")
    extras = config["options.extras_require"]
    lines = [config["options"]["install_requires"], *(extras[name] for name in ("fast", "lz4", "trust"))]
    needed = {re.split("[>;]", line)[0].replace("-", "_") for line in "\n".join(lines).split("\n") if line}
    text = (CHECKOUT / "easyblocks/containermodule.py").read_text()
    found = set(re.findall(r'"(\w+)"', text.partition("OURS = {")[2].partition("}")[0]))
    assert needed - {"easybuild_framework"} <= found


def test_an_eb_that_is_only_a_link_beside_our_python_is_tried_with_the_python_that_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = find_parts().python
    site = SiteEb(tmp_path / "site", python=base)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/eb").symlink_to(tmp_path / "site/eb")
    (tmp_path / "bin/python").symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin/python"))
    site.environ = {"PATH": "/usr/bin:/bin"}
    assert site.settings()["EB_PYTHON"] == base
