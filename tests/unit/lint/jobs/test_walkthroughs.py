from __future__ import annotations

import pytest

from hpcmod.lint.jobs.lint import lint_job
from hpcmod.machine.machine import load_site
from tests.walkthroughs import COMMANDS, SITES, Command


@pytest.mark.parametrize(
    "command", [command for command in COMMANDS if command.golden.suffix == ".sh"], ids=lambda command: command.name
)
def test_our_own_rules_find_nothing_in_the_scripts_of_the_pages(command: Command) -> None:
    site = load_site(SITES[command.page]["HPCMOD_SITE"], {})
    assert lint_job(command.golden.read_text(), site) == ()
