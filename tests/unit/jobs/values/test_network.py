"""The value of --network depends on nodes, GPUs and steps, according to the profile."""

from __future__ import annotations

import pytest

from hpcmod.jobs.values.job import make_job
from hpcmod.jobs.values.network import explain_network
from hpcmod.jobs.values.request import Staging
from hpcmod.machine.values.site import JobRules, Nodes, NodeType, Site, StagePlace
from tests.unit.jobs.requests import make_request

RULES = JobRules(
    network_one_node=("single_node_vni",),
    network_several_nodes=("disable_rdzv_get",),
    network_several_steps=("job_vni", "disable_rdzv_get"),
    stage_places=(StagePlace("ram", "/tmp"),),
)
SITE = Site(
    "ours",
    nodes=Nodes(types=(NodeType("gpu", gpus=4), NodeType("cpu"))),
    job=RULES,
)


@pytest.mark.parametrize(
    ("asked", "option"),
    [
        pytest.param({}, "--network=single_node_vni", id="one node"),
        pytest.param({"nodes": 2}, "--network=disable_rdzv_get", id="two nodes"),
        pytest.param(
            {"nodes": 2, "staging": Staging("ram")}, "--network=disable_rdzv_get,job_vni", id="beside keepers"
        ),
        pytest.param({"nodes": 2, "node_type": "cpu"}, None, id="nothing of NCCL's without GPUs"),
        pytest.param({"nodes": 2, "more": ("--network=def_acs",)}, "--network=def_acs", id="the user's"),
    ],
)
def test_network_of_a_job(asked: dict[str, object], option: str | None) -> None:
    made = make_job(make_request("t.py", **asked), SITE)
    found = [each.option for each in made.directives if each.option.startswith("--network")]
    assert found == ([option] if option else [])


def test_values_are_explained_where_they_are_known() -> None:
    assert explain_network("job_vni,def_acs") == "job_vni: Slingshot for concurrent steps"
