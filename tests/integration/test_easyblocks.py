"""The easyblocks, run by the real EasyBuild as upstream's tests run them: no sources, module only, forced."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.stack import CHECKOUT, EasyBuild, run

pytestmark = pytest.mark.stack

EASYBLOCKS = sorted(path.stem for path in (CHECKOUT / "easyblocks").glob("*.py"))
BARE = """easyblock = '{easyblock}'
name = 'foo'
version = '1.3.2'
homepage = 'https://example.com/'
description = "bare"
toolchain = SYSTEM
sources = []
"""

# Run the steps in this process, as `eb` would also load the module to write its devel module.
MODULE_ONLY = """
import os, sys
import easybuild.tools.options as options
from easybuild.framework.easyblock import EasyBlock
from easybuild.framework.easyconfig.easyconfig import EasyConfig, get_easyblock_class
from easybuild.tools import config
from easybuild.tools.options import set_tmpdir

easyconfig, prefix, easyblock = sys.argv[1:]
parsed = options.parse_options(args=[f"--prefix={prefix}"])
config.init(parsed.options, parsed.get_options_by_section("config"))
config.init_build_options(build_options={
    "external_modules_metadata": {},
    "force": True,
    "module_only": True,
    "silent": True,
    "suffix_modules_path": config.GENERAL_CLASS,
    "valid_module_classes": config.module_classes(),
    "valid_stops": [step[0] for step in EasyBlock.get_steps()],
})
set_tmpdir()
app = get_easyblock_class(easyblock)(EasyConfig(easyconfig))
os.makedirs(app.installdir)
app.run_all_steps(run_test_cases=False)
"""


def class_name(stem: str) -> str:
    found = re.search(r"^class (\w+)", (CHECKOUT / "easyblocks" / f"{stem}.py").read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


@pytest.fixture(params=EASYBLOCKS)
def easyblock(request: pytest.FixtureRequest) -> str:
    return class_name(request.param)


@pytest.fixture
def bare(tmp_path: Path, easyblock: str) -> Path:
    """An easyconfig with no optional parameters."""
    path = tmp_path / "foo-1.3.2.eb"
    path.write_text(BARE.format(easyblock=easyblock))
    return path


def test_a_module_is_made_by_force_without_any_source_and_says_none_nowhere(
    eb: EasyBuild, tmp_path: Path, easyblock: str, bare: Path
) -> None:
    syntax, suffix = ("Lua", ".lua") if easyblock == "ContainerModule" else ("Tcl", "")
    script = tmp_path / "module_only.py"
    script.write_text(MODULE_ONLY)
    env = {**eb.environment(), "EASYBUILD_MODULE_SYNTAX": syntax}
    done = run([str(eb.stack.python), "-O", str(script), str(bare), str(eb.prefix), easyblock], env, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    module = eb.modules / "foo" / f"1.3.2{suffix}"
    assert "None" not in module.read_text()


def test_a_dry_run_without_any_source_tells_of_no_fault(eb: EasyBuild, bare: Path) -> None:
    done = eb("--extended-dry-run", bare)
    assert done.returncode == 0, done.stdout
    assert "(no ignored errors during dry run)" in done.stdout


def test_eb_explains_the_parameters(eb: EasyBuild, easyblock: str) -> None:
    explained = eb("--avail-easyconfig-params", f"--easyblock={easyblock}").stdout
    for parameter in ("bind_paths", "environment", "install_mode", "site_profile", "wrapped_commands"):
        assert re.search(rf"^{parameter}\*  +\w+.*\[default: ", explained, re.MULTILINE), explained


def test_reports_an_unknown_engine_before_downloading_sources(eb: EasyBuild, tmp_path: Path) -> None:
    path = tmp_path / "foo-1.3.2.eb"
    text = BARE.format(easyblock="ContainerBuild").replace("sources = []", "recipe = 'pytorch-ngc-ofi'")
    path.write_text(f"{text}engine = 'bulidah'\n")
    lock = tmp_path / "lock"
    done = eb(path, HPCMOD_LOCK=str(lock), HPCMOD_SITE="generic")
    assert done.returncode != 0
    assert "unknown engine 'bulidah'" in done.stdout
    assert "downloading" not in done.stdout and not lock.exists()


FAULT = """
from easybuild.easyblocks.generic.containermodule import boundary
from easybuild.tools.build_log import EasyBuildError
from hpcmod.core.errors import RemoteError
try:
    with boundary():
        raise RemoteError("digest \\x1b]0;x\\x07 of \\u202efis.sif", "Try \\x9bagain.")
except EasyBuildError as err:
    print(err)
"""


def test_control_characters_of_what_others_wrote_do_not_reach_the_terminal(eb: EasyBuild, tmp_path: Path) -> None:
    """Messages from `eb` can quote a registry's answer."""
    script = tmp_path / "fault.py"
    script.write_text(FAULT)
    done = run([str(eb.stack.python), str(script)], eb.environment(), tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "digest ?]0;x? of ?fis.sif\nTry ?again." in done.stdout
