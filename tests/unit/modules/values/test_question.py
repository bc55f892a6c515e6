from __future__ import annotations

import json

from hpcmod.machine.values.bind import Bind
from hpcmod.machine.values.site import JobRules, NodeType, Site
from hpcmod.machine.values.tables import Caches, ModuleRules, Network
from hpcmod.modules.values.question import make_question

NODE = NodeType("gpu", cores=6, reserved_cores=(0, 4), gpus=2, partitions=("standard-g",), memory_gib=2)


def test_the_question_to_a_node_has_the_values_of_the_profile() -> None:
    site = Site("x", job=JobRules(exclusive=("standard-g",)), network=Network(interfaces=("hsn0",)))
    asked = make_question(site, [NODE], ())
    (node,) = asked["nodes"]
    assert node["cores"] == 8 and node["cpus"] == "1-3,5-7"
    assert node["memory"] == 2 << 30 and node["gpus"] == 2
    assert json.loads(json.dumps(asked)) == asked


def test_nothing_is_expected_of_cores_that_the_profile_does_not_know() -> None:
    assert make_question(Site("x"), [NodeType("any")], ())["nodes"][0]["cpus"] == ""


def test_a_path_matches_only_itself_and_a_pattern_its_matches() -> None:
    plain, pattern = Bind("/opt/a[1]*", required=True), Bind("/opt/[x]/*", pattern=True)
    (group,) = make_question(Site("x"), [], ((plain, pattern),))["binds"]
    assert group == {
        "names": ["/opt/a[1]*", "/opt/[x]/*"],
        "sources": ["/opt/a[[]1][*]", "/opt/[[]x]/*"],
        "required": True,
    }


def test_places_with_variables_are_left_out() -> None:
    for place, more in (("/mnt/$USER", []), ("/tmp", []), ("/local", ["/local"])):
        site = Site("x", module=ModuleRules(caches=Caches(node_local=place)))
        assert make_question(site, [], ())["places"] == ["/dev/shm", "/tmp", *more]
