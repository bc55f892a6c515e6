"""The commands on the pages for admins, run in order on a catalogue."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from hpcmod.core.cli.main import main
from hpcmod.images import Sif
from tests.plans import FACTS
from tests.stack import CHECKOUT
from tests.unit.catalogue.rendered import make_rendered

pytestmark = pytest.mark.slow

PAGES = ("refresh-catalogue", "upgrade-hpcmod", "usage-statistics", "backup-catalogue", "cron")
ELSEWHERE = ("hpcmod site check", "hpcmod verify --checks")
"""Commands that need the machine or a module tool: other tests run them."""


def commands(page: str) -> list[str]:
    """Return the commands of a page that change or read a catalogue, in order."""
    text = (CHECKOUT / f"docs/how-to/{page}.md").read_text()
    blocks = re.findall(r"^ *```(?:console|bash)\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    wanted = [line for line in lines if line.startswith(("hpcmod ", "tar "))]
    return [line for line in wanted if not line.startswith(ELSEWHERE)]


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_the_page_works(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sif, "facts", lambda _: FACTS)
    monkeypatch.chdir(tmp_path)
    make_rendered(tmp_path / "containers")
    (tmp_path / "new").mkdir()
    found = commands(page)
    assert found
    env = {"HPCMOD_CATALOGUE": str(tmp_path / "containers"), "HPCMOD_SITE": "generic"}
    for line in found:
        here = line.split(" > ")[0].replace("/appl", str(tmp_path)).replace("PyTorch", "Toy")
        words = shlex.split(here)
        if words[0] == "tar":
            subprocess.run(words, check=True)
            continue
        done = CliRunner(env=env).invoke(main, words[1:])
        # the image of this catalogue is a dummy, which verify reports
        only_image = "verify" in words and "Toy/1.0 image" in done.output
        assert done.exit_code == 0 or (done.exit_code == 1 and only_image), (line, done.output)


def test_the_page_for_a_second_admin_names_verbs_that_exist() -> None:
    assert commands("second-admin")
