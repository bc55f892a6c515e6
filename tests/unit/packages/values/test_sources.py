from __future__ import annotations

import json

import pytest

from hpcmod.packages.values.sources import PipMetadata, Source, make_installed_source, parse_list


def read(texts: dict[str, str], path: str = "/p/list.txt") -> Source:
    return parse_list(path, texts.__getitem__, lambda name: name.endswith("here.whl"))


def left_out(source: Source) -> dict[str, str]:
    return {one.name: one.reason for one in source.left_out}


def test_installed_packages_are_taken_with_their_versions() -> None:
    found = make_installed_source([PipMetadata("Needy", "1.0", True, ""), PipMetadata("einops", "0.8", False, "")])
    assert found.asked.lines == ("Needy",)
    assert found.versions == (("needy", "1.0"), ("einops", "0.8"))
    nothing_known = make_installed_source([PipMetadata("a", "1", False, ""), PipMetadata("b", "2", False, "[]")])
    assert nothing_known.asked.lines == ("a", "b")


@pytest.mark.parametrize(
    ("values", "line", "reason"),
    [
        ({"url": "file:///me/code", "dir_info": {"editable": True}}, None, "editable, from /me/code"),
        ({"url": "file:///me/code", "dir_info": {}}, None, "from /me/code; to install a copy: --build /me/code"),
        (
            {"url": "https://x/y", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            None,
            "to build it: --build 'x @ git+https://x/y@abc'",
        ),
        ({"url": "https://x/x.whl", "archive_info": {}}, "x @ https://x/x.whl", None),
        ({"url": "file:///tmp/x.whl", "archive_info": {}}, "x", None),
        ({"url": "https://x/x.tar.gz", "archive_info": {}}, None, "to build it: --build 'x @ https://x/x.tar.gz'"),
        ({"url": "https://x/x.whl -e /evil", "archive_info": {}}, None, "its metadata is damaged"),
    ],
)
def test_where_a_package_came_from_decides(values: dict[str, object], line: str | None, reason: str | None) -> None:
    found = make_installed_source([PipMetadata("x", "1", True, json.dumps(values))])
    assert found.asked.lines == ((line,) if line else ())
    assert left_out(found) == ({"x": reason} if reason else {})


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
