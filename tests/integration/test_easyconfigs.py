"""Every easyconfig in front of the real EasyBuild: contribution checks, style, a round trip through its parser."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.stack import CHECKOUT, EasyBuild, run

pytestmark = pytest.mark.stack

FILES = sorted((CHECKOUT / "easyconfigs").rglob("*.eb"))

DUMP = """
import sys
from easybuild.framework.easyconfig.easyconfig import EasyConfig
from easybuild.tools.options import set_up_configuration

set_up_configuration(args=[], silent=True)
given, dumped = sys.argv[1:]
first = EasyConfig(given)
first.dump(dumped)
second = EasyConfig(dumped)
differing = [name for name in first.asdict() if first[name] != second[name]]
sys.exit(f"changed: {differing}" if differing else 0)
"""


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
@pytest.mark.parametrize("flag", ["--check-contrib", "--check-style"])
def test_it_passes_the_checks_for_contributions(eb: EasyBuild, path: Path, flag: str) -> None:
    done = eb(flag, path)
    assert done.returncode == 0, done.stdout
    assert "PASS" in done.stdout or "passed" in done.stdout.lower(), done.stdout


def test_the_check_for_contributions_notices_a_fault(eb: EasyBuild, tmp_path: Path) -> None:
    broken = tmp_path / FILES[0].name
    broken.write_text(FILES[0].read_text().replace("checksums", "local_sums") + "x = '" + "y" * 130 + "'\n")
    assert eb("--check-contrib", broken).returncode != 0


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_survives_being_written_by_easybuild_and_read_again(eb: EasyBuild, path: Path, tmp_path: Path) -> None:
    script = tmp_path / "dump.py"
    script.write_text(DUMP)
    argv = [str(eb.stack.python), str(script), str(path), str(tmp_path / path.name)]
    done = run(argv, eb.environment(), tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_plain_eb_finds_it_by_its_name(eb: EasyBuild, path: Path) -> None:
    done = eb("--search", f"^{path.name}$")
    assert path.name in done.stdout
