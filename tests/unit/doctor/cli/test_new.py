from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.core import resources
from hpcmod.doctor import survey
from hpcmod.doctor.values.draft import MachineEvidence
from hpcmod.jobs.values.cluster import Cluster, ListedNode, ListedPartition
from tests.calls import hpcmod

CLUSTER = Cluster(
    "ours",
    "24.11",
    "",
    (ListedNode("n1", 64, 2, memory=256000, partitions=("p",)),),
    (ListedPartition("p", default=True),),
)


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[tuple[str, ...], str]]:
    """The partitions and accounts that the machine was asked for, a cluster with one node."""
    found: list[tuple[tuple[str, ...], str]] = []

    def find(_: Mapping[str, str], partitions: Sequence[str], options: Mapping[str, str]) -> MachineEvidence:
        found.append((tuple(partitions), options["account"]))
        return MachineEvidence("login1", "/home/me", CLUSTER)

    monkeypatch.setattr(survey, "find_evidence", find)
    return found


def test_the_first_line_tells_editors_the_schema_that_the_build_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert hpcmod("site", "new").stdout.startswith("# ")
    monkeypatch.setattr(resources, "_PACKAGE", tmp_path)
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas/site-profile.json").touch()
    first = hpcmod("site", "new").stdout.splitlines()[0]
    assert first == f"#:schema file://{tmp_path}/schemas/site-profile.json"


def test_without_a_file_the_profile_is_printed() -> None:
    done = hpcmod("site", "new")
    assert done.exit_code == 0
    assert 'name = "ours"\n' in done.stdout
    assert "[nodes.cpu]\n# the list of nodes: 1 node such as n1\ncores = 64\n" in done.stdout


def test_a_key_with_a_doubtful_value_does_not_count_as_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = (*CLUSTER.nodes, ListedNode("n2", 32, 1, memory=256000, partitions=("p",)))
    evidence = MachineEvidence("login1", "/home/me", replace(CLUSTER, nodes=nodes))
    monkeypatch.setattr(survey, "find_evidence", lambda *_: evidence)
    done = hpcmod("site", "new")
    assert done.stdout.count(": not known: ") == int(done.stderr.split(" keys not known")[0].split()[-1])
    assert "also partitions of other node types" in done.stdout


@pytest.mark.slow
def test_a_file_is_written_and_named_and_can_be_used(tmp_path: Path) -> None:
    done = hpcmod("site", "new", "-o", tmp_path / "ours.toml")
    assert (done.exit_code, done.stdout) == (0, f"{tmp_path}/ours.toml\n")
    assert f"next: hpcmod site check --site {tmp_path}/ours.toml" in done.stderr
    shown = hpcmod("site", "show", "--site", str(tmp_path / "ours.toml"), "--json")
    assert json.loads(shown.stdout)["nodes"]["types"][0]["memory_gib"] == 250


def test_an_existing_file_is_replaced_only_with_force(tmp_path: Path) -> None:
    file = tmp_path / "ours.toml"
    file.write_text("mine")
    refused = hpcmod("site", "new", "-o", file)
    assert refused.exit_code == 2
    assert "already exists" in refused.stderr
    assert file.read_text() == "mine"
    assert hpcmod("site", "new", "-o", file, "--force").exit_code == 0
    assert 'name = "ours"' in file.read_text()


def test_partitions_are_asked_with_the_account(asked: list[tuple[tuple[str, ...], str]]) -> None:
    hpcmod("site", "new", "--partition", "gpu", "--partition", "cpu", "--account", "project_1")
    assert asked == [(("gpu", "cpu"), "project_1")]
