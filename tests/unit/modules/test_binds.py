from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.machine.values.bind import ON_HOST, Bind
from hpcmod.modules.binds import BindFinding, explain_binds


def rows(found: list[BindFinding]) -> list[tuple[str, bool, str]]:
    return [(one.bind.source, one.kept, one.why) for one in found]


def make(path: Path, *names: str) -> None:
    for name in names:
        (path / name).mkdir(parents=True)


def test_each_candidate_is_kept_or_dropped_with_the_reason(tmp_path: Path) -> None:
    make(tmp_path, "a", "x\\")
    (tmp_path / "dangling").symlink_to("nowhere")
    names = ("a", "gone", "dangling", "x\\")
    found = explain_binds(tuple((Bind(f"{tmp_path}/{name}", required=True),) for name in names), {})
    assert rows(found) == [
        (f"{tmp_path}/a", True, "exists"),
        (f"{tmp_path}/gone", False, "does not exist here"),
        (f"{tmp_path}/dangling", False, "a link to nowhere, which does not exist"),
        (f"{tmp_path}/x\\", False, "its name is not valid in a bind path"),
    ]
    assert [one.missing for one in found] == [False, True, True, True]


def test_keeps_the_first_existing_path_of_a_group(tmp_path: Path) -> None:
    make(tmp_path, "b", "c")
    group = tuple(Bind(f"{tmp_path}/{name}", "/to", origin=f"x.toml:{name}") for name in "abc")
    found = explain_binds((group,), {})
    assert rows(found) == [
        (f"{tmp_path}/a", False, "does not exist here"),
        (f"{tmp_path}/b", True, "exists"),
        (f"{tmp_path}/c", False, f"not needed, because {tmp_path}/b exists"),
    ]
    assert [one.bind.origin for one in found] == ["x.toml:a", "x.toml:b", "x.toml:c"]


def test_keeps_the_newest_match_of_a_pattern_and_the_pattern(tmp_path: Path) -> None:
    make(tmp_path, "fabric/1.9/lib", "fabric/1.10/lib", "fabric/2.0")
    pattern = f"{tmp_path}/fabric/*/lib"
    (one,) = explain_binds(((Bind(pattern, "/host/lib", pattern=True),),), {})
    assert rows([one]) == [(f"{tmp_path}/fabric/1.10/lib", True, f"the newest of 2 that match {pattern}")]
    assert one.asked == f"{pattern}:/host/lib"
    (none,) = explain_binds(((Bind(f"{tmp_path}/no/*", pattern=True, required=True),),), {})
    assert (none.why, none.missing) == ("nothing here matches the pattern", True)


def test_keeps_the_newest_capture_whose_original_is_on_this_node(tmp_path: Path) -> None:
    make(tmp_path, "stack/1", "stack/2", "stack/3", "here")
    for name, target in (("1", "here"), ("2", "here"), ("3", "updated")):
        (tmp_path / "stack" / name / ON_HOST).symlink_to(tmp_path / target)
    group = (Bind(f"{tmp_path}/stack/*", "/host/lib", pattern=True),)
    (one,) = explain_binds((group,), {})
    assert rows([one])[0][0] == f"{tmp_path}/stack/2"
    (tmp_path / "here").rmdir()
    (other,) = explain_binds((group,), {})
    assert rows([other])[0][0] == f"{tmp_path}/stack/3", "the newest where none fits"


def test_the_users_own_binds_win_and_come_last(tmp_path: Path) -> None:
    make(tmp_path, "site", "mine")
    environ = {"APPTAINER_BINDPATH": f"{tmp_path}/mine:/to/,/no/such:/n", "SINGULARITY_BIND": f"{tmp_path}/mine:/to"}
    found = explain_binds(((Bind(f"{tmp_path}/site", "/to"),),), environ)
    assert [(one.kept, one.bind.origin) for one in found] == [
        (False, ""),
        (True, "$SINGULARITY_BIND"),
        (False, "$APPTAINER_BINDPATH"),
    ]
    assert found[0].why == "$SINGULARITY_BIND binds something else to /to"
    assert found[2].why == "does not exist here: the runtime would not start, so wrappers omit it"


def test_binds_of_a_loaded_module_are_not_mistaken_for_the_users(tmp_path: Path) -> None:
    make(tmp_path, "fabric/1.9", "plain", "sw/runscripts")
    groups = ((Bind(f"{tmp_path}/fabric/*", "/lib", pattern=True),), (Bind(f"{tmp_path}/plain"),))
    loaded = {
        "SINGULARITY_BINDPATH": f"{tmp_path}/fabric/1.8:/lib,{tmp_path}/plain,{tmp_path}/sw/runscripts:/runscripts",
        "CONTAINERROOT": f"{tmp_path}/sw",
    }
    assert [one.why for one in explain_binds(groups, loaded)][1:] == ["exists", "of the loaded module"]


@pytest.mark.parametrize("bound", [False, True])
def test_the_tree_that_a_link_leads_into_is_kept_unless_it_is_bound_anyway(tmp_path: Path, bound: bool) -> None:
    make(tmp_path, "pfs/one")
    (tmp_path / "scratch").symlink_to("pfs/one")
    groups = ((Bind(f"{tmp_path}/scratch", origin="x.toml:3"),), *([(Bind(f"{tmp_path}/pfs"),)] if bound else []))
    found = explain_binds(groups, {})
    extra = [(one.bind.source, one.bind.origin) for one in found if "is a link into it" in one.why]
    assert extra == ([] if bound else [(f"{tmp_path}/pfs/one", "x.toml:3")])
    loaded = ",".join(str(one.bind) for one in found)
    assert explain_binds(groups, {"APPTAINER_BINDPATH": loaded}) == found, "not taken for a bind of the user's"


@pytest.mark.parametrize("target", ["/usr/share", "/"])
def test_no_link_is_followed_to_where_the_images_own_lies(tmp_path: Path, target: str) -> None:
    (tmp_path / "link").symlink_to(target)
    assert len(explain_binds(((Bind(f"{tmp_path}/link"),),), {})) == 1
