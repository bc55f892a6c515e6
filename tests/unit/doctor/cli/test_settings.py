"""`hpcmod site settings`: each variable of a profile with its verdict, reason and line."""

from __future__ import annotations

import json
from pathlib import Path

from tests import corpus
from tests.calls import hpcmod


def test_settings_are_reported_with_condition_reason_and_line() -> None:
    lines = hpcmod("site", "settings", "frontier", "-N", "1").stdout.splitlines()
    at = lines.index("NCCL_NET=Socket")
    assert lines[at + 1].startswith("    set, on one node: there is no Slingshot network in jobs of one node (OLCF)  [")
    assert lines[lines.index("NCCL_NET=OFI") + 1].startswith("    not set, only on several nodes: ")


def test_an_image_decides_what_depends_on_versions(tmp_path: Path) -> None:
    image = str(corpus.make_image(tmp_path / "a.sif"))  # with torch for ROCm 6.2.4
    named = hpcmod("site", "settings", "lumi", "--image", image).stdout
    loaded = hpcmod("site", "settings", SIF=image, HPCMOD_SITE="lumi").stdout
    assert named == loaded
    assert "NCCL_NET_GDR_LEVEL=3\n    set, rocm<7: " in loaded


def test_programs_get_one_versioned_object() -> None:
    answer = json.loads(hpcmod("site", "settings", "--json", HPCMOD_SITE="lumi").stdout)
    assert (answer["version"], answer["site"], answer["image"], answer["nodes"]) == (1, "lumi", None, None)
    level = next(one for one in answer["settings"] if one["name"] == "NCCL_NET_GDR_LEVEL")
    assert (level["verdict"], level["because"]) == ("depends", "with rocm<7 in the image")
    assert level["origin"].startswith("lumi.toml:")


def test_every_setting_of_the_shipped_slingshot_profiles_has_a_reason() -> None:
    for site in ("cray-ex-gh200", "frontier", "lumi"):
        answer = json.loads(hpcmod("site", "settings", "--json", site).stdout)
        assert [one["name"] for one in answer["settings"] if not one["why"]] == []


def test_a_missing_image_is_not_found() -> None:
    assert hpcmod("site", "settings", "lumi", "--image", "/none.sif").exit_code == 3
