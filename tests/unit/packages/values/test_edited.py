from __future__ import annotations

import json

from hpcmod.packages.values.edited import describe_edited
from hpcmod.packages.values.sources import Editable, PipMetadata
from tests.package_states import EINOPS, NEEDY, TARGET, make_state

BASE = make_state(1, EINOPS, NEEDY, requirements=("einops<1", "needy"))


def test_an_unchanged_file_keeps_its_record() -> None:
    found = [PipMetadata("needy", "1.0", True, ""), PipMetadata("Einops", "0.8.1", True, "")]
    edited = describe_edited(found, BASE, TARGET, "now")
    assert edited.locked == (EINOPS, NEEDY)
    assert (edited.requirements, edited.dropped, edited.replaced, edited.editable) == ((), (), (), ())


def test_new_versions_and_packages_are_asked_for_and_removed_ones_are_not() -> None:
    found = [PipMetadata("einops", "0.9", False, ""), PipMetadata("x", "1", True, ""), PipMetadata("y", "1", False, "")]
    edited = describe_edited(found, BASE, TARGET, "now")
    assert [(one.pin, one.since) for one in edited.locked] == [
        (f"{pin}", "now") for pin in ("einops==0.9", "x==1", "y==1")
    ]
    assert edited.requirements == ("einops", "x")
    assert edited.dropped == ("needy",)


def test_reports_code_that_stays_elsewhere() -> None:
    urls = {
        "mine": {"url": "file:///me/code", "dir_info": {"editable": True}},
        "git": {"url": "https://user:secret@x/y", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
        "wheel": {"url": "file:///w.whl", "archive_info": {"hashes": {"sha256": "c" * 64}}},
        "strange": [],
    }
    found = [PipMetadata(name, "1", True, json.dumps(url)) for name, url in urls.items()]
    edited = describe_edited(found, None, TARGET, "now")
    assert edited.requirements == ("git @ git+https://x/y@abc", "mine @ file:///me/code", "strange", "wheel")
    assert edited.editable == (Editable("mine", "/me/code"),)
    assert {one.name: one.sha256 for one in edited.locked if one.sha256} == {"wheel": "c" * 64}


def test_reports_a_package_of_the_image_in_another_version() -> None:
    found = [PipMetadata("torch", "2.8", True, ""), PipMetadata("typing-extensions", "4.12", False, "")]
    assert describe_edited(found, None, TARGET, "now").replaced == ("torch",)
