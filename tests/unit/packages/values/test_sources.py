from __future__ import annotations

import json

import pytest

from hpcmod.packages.values.sources import DirectUrl, Editable, Source, find_editable, parse_list


def read(texts: dict[str, str], path: str = "/p/list.txt") -> Source:
    return parse_list(path, texts.__getitem__, lambda name: name.endswith("here.whl"))


def left_out(source: Source) -> dict[str, str]:
    return {one.name: one.reason for one in source.left_out}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"url": "file:///me/code", "dir_info": {"editable": True}}, DirectUrl("file:///me/code", "editable")),
        ({"url": "file:///me/code", "dir_info": {}}, DirectUrl("file:///me/code", "directory")),
        ({"url": "https://x/y", "vcs_info": {"vcs": "git", "commit_id": "a"}}, DirectUrl("https://x/y", "git", "a")),
        ({"url": "https://u:p@x/x.whl?s", "archive_info": {}}, DirectUrl("https://x/x.whl", "archive")),
        ([], DirectUrl()),
        ({"vcs_info": {"vcs": "git"}}, DirectUrl()),
    ],
)
def test_where_a_package_came_from(values: object, expected: DirectUrl) -> None:
    assert DirectUrl.parse(json.dumps(values)) == expected
    found = find_editable("x", json.dumps(values))
    assert found == (Editable("x", "/me/code") if expected.kind == "editable" else None)


def test_a_freeze_is_taken_and_its_versions_need_not_be_met() -> None:
    found = read(
        {
            "/p/list.txt": "einops==0.8.0\n-e git+https://x/mine@1#egg=mine\ntorch[opt] == 2.6; python_version>'3'\n"
            "numpy @ file:///home/conda/feedstock_root/numpy\nq @ file:///w/here.whl\n-r more.txt\nx<3\n",
            "/p/more.txt": "-e /home/me/code\n--pre\nh==1 --hash=sha256:" + "0" * 64 + "\n",
        }
    )
    assert found.asked.lines == (
        *("einops", "torch[opt]; python_version>'3'", "numpy", "q @ file:///w/here.whl"),
        *("h==1 --hash=sha256:" + "0" * 64, "x<3"),
    )
    assert found.versions == (("einops", "0.8.0"), ("torch", "2.6"))
    assert found.asked.options == ("--pre",)
    assert left_out(found) == {"mine": "editable", "/home/me/code": "editable"}
