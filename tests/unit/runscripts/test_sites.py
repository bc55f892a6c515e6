"""Golden files: what a rank gets on each shipped site, given Slurm's variables but none of its GPUs or cores."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from hpcmod.core.resources import site_profiles
from hpcmod.machine.machine import load_site
from hpcmod.modules.values.plan import make_plan
from tests.plans import FACTS, SPEC
from tests.stack import CHECKOUT
from tests.unit.runscripts.scripts import DISTRIBUTED, EIGHT, Scripts, task

GOLDEN = Path(__file__).parent / "golden"
PAGE = CHECKOUT / "docs/reference/runscripts.md"
SHOWN = {"amd": {"ROCR_VISIBLE_DEVICES": EIGHT}, "nvidia": {"CUDA_VISIBLE_DEVICES": "0,1,2,3"}, "": {}}
EIGHT_SHOWN = {"amd": SHOWN["amd"], "nvidia": {"CUDA_VISIBLE_DEVICES": EIGHT}}


@pytest.mark.slow
@pytest.mark.parametrize("site", sorted(site_profiles()))
def test_explains_the_settings_of_a_sites_last_rank(
    tmp_path: Path, site: str, golden: Callable[[Path, str], None]
) -> None:
    profile = load_site(site, {})
    scripts = Scripts(tmp_path).write(make_plan(FACTS, profile, SPEC).runscripts)
    ranks = profile.nodes.usual.gpus or 2
    shown = (EIGHT_SHOWN if ranks > 4 else SHOWN)[profile.gpu.vendor]
    env = task(2 * ranks - 1, (ranks, ranks), HPCMOD_CACHE_ROOT="/node-local", **shown)
    ran = scripts(DISTRIBUTED, "--hpcmod-explain", "train.py", env=env)
    assert (ran.status, ran.stderr) == (0, "")
    if site == "lumi":  # the example of the page has the lines of today
        rows = re.findall(r"^    (\w+)=\S+ +# (lib/\S+): ", PAGE.read_text(), re.MULTILINE)
        places = dict(re.findall(r"^(\w+)=.* # (lib/\S+): ", ran.stdout, re.MULTILINE))
        assert len(rows) == 5 and rows == [(name, places[name]) for name, _ in rows]
    told = "".join(line for line in ran.stdout.splitlines(keepends=True) if not line.startswith("# runs on: "))
    told = re.sub(r"(# lib/\w+\.bash):\d+:", r"\1:LINE:", told)
    golden(GOLDEN / f"{site}.explain.txt", told)
