"""Every easyconfig checked by the real EasyBuild: contribution checks, style, a round trip through its parser."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.stack import CHECKOUT, EasyBuild, run

pytestmark = pytest.mark.stack

FILES = sorted((CHECKOUT / "easyconfigs").rglob("*.eb"))

DUMP = """
import sys
from pathlib import Path
from easybuild.framework.easyconfig.easyconfig import EasyConfig
from easybuild.tools.options import set_up_configuration

set_up_configuration(args=[], silent=True)
directory, *paths = sys.argv[1:]
for path in paths:
    first = EasyConfig(path)
    first.dump(str(Path(directory, Path(path).name)))
    second = EasyConfig(str(Path(directory, Path(path).name)))
    differing = [name for name in first.asdict() if first[name] != second[name]]
    if differing:
        sys.exit(f"{path}: changed: {differing}")
    if not (first["download_instructions"] or first["source_urls"]):
        sys.exit(f"{path}: EasyBuild's own easyconfigs say how to get their sources")
"""


def test_all_pass_the_checks_for_contributions(eb: EasyBuild) -> None:
    done = eb("--check-contrib", *FILES)  # includes --check-style
    assert done.returncode == 0, done.stdout
    assert "FAIL" not in done.stdout
    assert done.stdout.count("[PASS]") >= len(FILES)


def test_the_check_for_contributions_notices_a_fault(eb: EasyBuild, tmp_path: Path) -> None:
    local = next(path for path in FILES if "checksums = [None]" in path.read_text())
    broken = tmp_path / local.name
    broken.write_text(local.read_text().replace("checksums", "local_sums") + "x = '" + "y" * 130 + "'\n")
    assert eb("--check-contrib", broken).returncode != 0


def test_all_survive_being_written_by_easybuild_and_read_again(eb: EasyBuild, tmp_path: Path) -> None:
    script = tmp_path / "dump.py"
    script.write_text(DUMP)
    (tmp_path / "dumped").mkdir()
    argv = [str(eb.stack.python), str(script), str(tmp_path / "dumped"), *map(str, FILES)]
    done = run(argv, eb.environment(), tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list((tmp_path / "dumped").iterdir())) == len(FILES)


def test_plain_eb_finds_all_by_their_names(eb: EasyBuild) -> None:
    found = eb("--search-filename", "singularity").stdout.split()
    assert {path.name for path in FILES} <= {Path(word).name for word in found}
