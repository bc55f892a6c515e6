from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from hpcmod.core import resources
from tests.calls import hpcmod


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    """A site profile whose only existing bind source is /usr, bound to another path."""
    path = tmp_path / "ours.toml"
    path.write_text('name = "ours"\n[binds]\nrequired = ["/usr:/host/usr"]\noptional = [\n  "/no/such/place",\n]\n')
    return path


def test_site_list_is_the_shipped_profiles_one_a_line() -> None:
    lines = hpcmod("site", "ls").stdout.splitlines()
    assert [line.split()[0] for line in lines] == sorted(resources.site_profiles())
    assert re.match(r"alps +rendered only +Alps \(Daint", lines[0])
    found = json.loads(hpcmod("site", "ls", "--json").stdout)
    assert [one["name"] for one in found["profiles"]] == sorted(resources.site_profiles())
    assert all(one["description"] and one["tried"] for one in found["profiles"])


def test_site_show_prints_a_profile_that_can_be_used(tmp_path: Path) -> None:
    shown = hpcmod("site", "show", "lumi").stdout
    (tmp_path / "ours.toml").write_text(shown)
    assert hpcmod("site", "show", "--site", str(tmp_path / "ours.toml")).stdout == shown
    assert 'name = "lumi"' in shown.splitlines()
    assert "[nodes.lumi-g]" in shown.splitlines()


def test_site_show_prints_the_named_profile_else_that_of_this_machine(ours: Path) -> None:
    assert 'name = "lumi"' in hpcmod("site", "show", HPCMOD_SITE="lumi").stdout.splitlines()
    assert 'name = "generic"' in hpcmod("site", "show", "generic", HPCMOD_SITE="lumi").stdout.splitlines()
    assert 'name = "ours"' in hpcmod("site", "show", "--site", str(ours), HPCMOD_SITE="lumi").stdout.splitlines()


def test_site_show_gives_one_versioned_object_for_programs() -> None:
    found = json.loads(hpcmod("site", "show", "--json", "lumi").stdout)
    assert (found["version"], found["name"]) == (1, "lumi")
    (first,) = found["binds"]["required"][0]
    assert (first["source"], first["required"]) == ("/var/spool/slurmd", True)


def test_site_show_of_an_unknown_name_is_not_found() -> None:
    result = hpcmod("site", "show", "nowhere")
    assert (result.exit_code, result.stdout) == (3, "")


def test_site_show_origin_names_file_and_line_of_each_value(ours: Path) -> None:
    lines = hpcmod("site", "show", "--origin", str(ours)).stdout.splitlines()
    assert f'name = "ours"  # {ours}:1' in lines
    assert f'binds.required = [["/usr:/host/usr"]]  # {ours}:3' in lines
    assert 'module.family = "ai_container"  # built-in' in lines
    assert 'launcher.kind = "srun"  # built-in' in lines


def test_site_show_origin_gives_the_same_to_programs() -> None:
    found = json.loads(hpcmod("site", "show", "--origin", "--json", HPCMOD_SITE="lumi").stdout)
    assert (found["version"], found["site"], found["chosen_by"]) == (1, "lumi", "$HPCMOD_SITE")
    level = found["values"]["environment.NCCL_NET_GDR_LEVEL"]
    assert level["value"].pop("why").startswith("3: RDMA")
    assert level["value"] == {"value": "3", "when": "rocm<7"}
    assert level["origin"].startswith("lumi.toml:")
    assert found["values"]["caches.node_local"]["value"] == "/tmp"
    cases = json.loads(hpcmod("site", "show", "--origin", "--json", "frontier").stdout)["values"][
        "environment.NCCL_NET"
    ]
    assert [one["when"] for one in cases["value"]] == ["single-node", "multi-node, plugin>=1.19"]


def test_site_detect_prints_the_profile_in_use_and_those_that_fit() -> None:
    lines = hpcmod("site", "detect", HPCMOD_SITE="lumi", LMOD_SYSTEM_NAME="frontier").stdout.splitlines()
    assert lines[:2] == ["used: lumi ($HPCMOD_SITE)", "fits: frontier ($LMOD_SYSTEM_NAME is frontier)"]
    found = json.loads(hpcmod("site", "detect", "--json", LMOD_SYSTEM_NAME="frontier").stdout)
    assert found["used"] == found["fits"][0] == {"profile": "frontier", "reason": "$LMOD_SYSTEM_NAME is frontier"}


def test_site_check_ends_with_1_where_a_required_bind_is_missing(ours: Path) -> None:
    done = hpcmod("site", "check", str(ours))
    assert done.exit_code == 0
    assert "ok   bind /usr:/host/usr: exists\n" in done.stdout
    missing = hpcmod("site", "check", "--json", "lumi")
    assert missing.exit_code == 1
    assert "/opt/cray" in {one["subject"].split()[-1] for one in json.loads(missing.stdout)["findings"]}


def test_binds_are_printed_one_per_line_and_explained(ours: Path) -> None:
    assert hpcmod("site", "binds", "--site", str(ours)).stdout == "/usr:/host/usr\n"
    done = hpcmod("site", "binds", "--explain", "--site", str(ours), APPTAINER_BINDPATH="/etc:/mine")
    assert [line.split("\t") for line in done.stdout.splitlines()] == [
        ["kept", "/usr -> /host/usr", "exists", f"{ours}:3"],
        ["dropped", "/no/such/place", "does not exist here", f"{ours}:5"],
        ["kept", "/etc -> /mine", "yours", "$APPTAINER_BINDPATH"],
    ]


def test_binds_gives_one_versioned_object_for_programs(ours: Path) -> None:
    found = json.loads(hpcmod("site", "binds", "--json", "--site", str(ours)).stdout)
    assert found["version"] == 1
    assert found["binds"][1] == {
        "source": "/no/such/place",
        "destination": "/no/such/place",
        "options": "",
        "required": False,
        "kept": False,
        "why": "does not exist here",
        "asked": "/no/such/place",
        "origin": f"{ours}:5",
    }


def test_all_shipped_profiles_pass_by_themselves_each_value_with_its_source() -> None:
    done = hpcmod("site", "check", "--offline", "--all", "--json")
    assert done.exit_code == 0
    found = json.loads(done.stdout)["findings"]
    assert len(found) >= 20
    assert {one["subject"].removesuffix(".toml") for one in found} == set(resources.site_profiles())
    assert [(one["subject"], one["found"], one["cure"]) for one in found if one["level"] != "ok"] == []


def test_a_file_is_checked_by_itself(ours: Path) -> None:
    done = hpcmod("site", "check", "--offline", "--site", str(ours))
    assert done.exit_code == 0
    assert f"{ours}:3: warn: no-source: binds.required has no comment" in done.stdout


def test_the_sources_of_a_profile_are_listed(ours: Path) -> None:
    assert "[part]" not in hpcmod("site", "check", "--sources", "lumi").stdout
    found = json.loads(hpcmod("site", "check", "--sources", "lumi", "--json").stdout)["findings"]
    (cores,) = [one for one in found if one["found"].startswith("nodes.lumi-g.cores: Lumi-supercomputer/")]
    assert (cores["level"], cores["subject"]) == ("ok", "lumi.toml")
    done = hpcmod("site", "check", "--sources", "--site", str(ours))
    assert (done.exit_code, "binds.required has no source" in done.stdout) == (1, True)


def test_without_clones_it_is_not_known_whether_a_source_changed(tmp_path: Path) -> None:
    done = hpcmod("site", "check", "--sources", "dgx-h100", "--checkouts", str(tmp_path))
    assert (done.exit_code, "git clone --bare" in done.stdout) == (0, True)
