from __future__ import annotations

from dataclasses import replace

from hpcmod.machine.machine import load_site
from hpcmod.machine.values.site import HOST_PYTHON, Nodes, NodeType
from hpcmod.modules.values.guard import make_guard
from hpcmod.modules.values.plan import RunscriptSettings, make_plan
from tests.plans import FACTS, SPEC


def settings_of(site: str) -> RunscriptSettings:
    return make_plan(FACTS, load_site(site, {}), SPEC).runscripts


def test_all_that_changes_another_python_is_emptied_and_the_home_is_kept_out() -> None:
    assert make_guard(None) == (*((name, "") for name in HOST_PYTHON), ("PYTHONNOUSERSITE", "1"))


def test_variables_that_the_image_may_assign_are_left_to_it() -> None:
    guard = dict(make_guard(replace(FACTS, assigned=("PYTHONPATH", "WITH_CONDA", "PYTHONNOUSERSITE"))))
    assert set(guard) == set(HOST_PYTHON) - {"PYTHONPATH"}


def test_variables_set_by_the_module_are_not_emptied() -> None:
    settings = settings_of("lumi")
    assert "APPTAINERENV_VIRTUAL_ENV" in settings.container.variables
    assert "VIRTUAL_ENV" not in dict(settings.container.guard) and "PYTHONPATH" in dict(settings.container.guard)


def test_run_scripts_know_the_nodes_the_default_one_first() -> None:
    site = load_site("lumi", {})
    types = (NodeType("a"), NodeType("b"), NodeType("c"))
    plan = make_plan(FACTS, site._replace(nodes=Nodes(types, "b")), SPEC)
    assert [node.name for node in plan.site.nodes.usual_first] == ["b", "a", "c"]


def test_the_profiler_is_that_of_the_gpus() -> None:
    profilers = [settings_of(site).profilers for site in ("lumi", "marenostrum5", "generic")]
    assert profilers == [("rocprofv3", "rocprof"), ("nsys",), ("py-spy",)]
