from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.jobs.cli.script import MARK
from tests.calls import hpcmod
from tests.catalogues import make_catalogue, make_record


@pytest.mark.parametrize(("until", "said"), [("", "retired"), ("2026-01-01", "retired"), ("2999-01-01", "gone")])
def test_a_retired_container_is_refused_from_the_day_on_which_it_no_longer_loads(
    until: str, said: str, tmp_path: Path
) -> None:
    record = make_record("Toy/1.0", state="retired", until=until)
    catalogue = make_catalogue(tmp_path / "catalogue", record)
    modulefile = catalogue.modules / "Toy" / "1.0.lua"
    modulefile.parent.mkdir(parents=True, exist_ok=True)
    modulefile.write_text(f'-- Written by hpcmod.\nlocal root = "{catalogue.software}/Toy/1.0"\n')
    script = tmp_path / "old.sh"
    script.write_text(f"#!/bin/bash\n{MARK}\nmodule use {catalogue.modules}\nmodule load Toy/1.0 || exit\n")
    done = hpcmod("job", "--rerun", str(script), HPCMOD_CATALOGUE=str(catalogue.directory), PATH="/nowhere")
    assert done.exit_code == 3, done.output
    assert said in done.stderr
