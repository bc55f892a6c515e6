"""The page about LUMI's modules names every script that is compared, and each script states its form and source."""

from __future__ import annotations

import re

from tests.lumi.machine import MODULES, SCRIPTS
from tests.stack import CHECKOUT

NAMES = sorted(path.stem for path in SCRIPTS.glob("*.sh"))


def test_the_page_names_every_script() -> None:
    text = (CHECKOUT / "docs/reference/lumi-modules.md").read_text()
    cells = [line.rstrip("| ").rpartition("|")[2] for line in text.partition("## ")[0].splitlines() if line[:2] == "| "]
    assert sorted(re.findall(r"`([a-z0-9-]+)`", " ".join(cells))) == NAMES
    assert len(NAMES) >= 30


def test_each_script_has_a_form_and_a_source_and_loads_a_known_module() -> None:
    for name in NAMES:
        first, form, source, *rest = (SCRIPTS / f"{name}.sh").read_text().splitlines()
        assert (first, form[:8], source[:10]) == ("#!/bin/bash -e", "# Form: ", "# Source: "), name
        loaded = [line.split()[-1] for line in rest if line.startswith("module load ")]
        assert loaded and set(loaded) <= set(MODULES), name
