from __future__ import annotations

import json

import pytest

from hpcmod.errors import BadInputError
from hpcmod.model.packages.sources import (
    PipMetadata,
    Source,
    make_installed_source,
    parse_conda_environment,
    parse_list,
    parse_project,
)


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


def test_a_project_gives_its_dependencies() -> None:
    text = '[project]\nname = "mine"\ndependencies = ["einops>=0.8"]\noptional-dependencies = {dev = ["pytest"]}\n'
    found = parse_project(text, "/p/pyproject.toml", lambda _: False)
    assert (found.asked.lines, found.versions) == (("einops>=0.8",), ())
    assert set(left_out(found)) == {"mine", "dev"}
    for text in ('[project]\ndynamic = ["dependencies"]\n', '[tool.poetry]\nname = "x"\n', "dependencies = 1\n"):
        with pytest.raises(BadInputError, match="no list `dependencies`"):
            parse_project(text, "/p/pyproject.toml", lambda _: False)


ENVIRONMENT = """
name: mine
channels: [conda-forge]
dependencies:
  - python=3.11
  - conda-forge::pytorch=2.6
  - numpy=1.26.4=py311h64a7726_0
  - scipy ==1.11
  - pandas >=2,<3
  - cuda-nvcc
  - r-ggplot2
  - einops=0.7
  - pip
  - pip:
    - einops==0.8.0
    - -e .
    - x<2
"""


def test_a_conda_environment_gives_the_requirements_that_pip_may_find() -> None:
    found = parse_conda_environment(ENVIRONMENT, "/p/environment.yml", {}.__getitem__, lambda _: False)
    assert found.asked.lines == ("torch", "numpy", "scipy", "pandas>=2,<3", "einops", "x<2")
    assert found.versions == (("torch", "2.6.*"), ("numpy", "1.26.4"), ("scipy", "1.11"), ("einops", "0.8.0"))
    assert found.optional == {"torch", "numpy", "scipy", "pandas"}
    assert left_out(found) == {
        **dict.fromkeys(("python", "cuda-nvcc", "r-ggplot2", "pip"), "not a Python package"),
        ".": "editable",
    }


@pytest.mark.parametrize("text", ["[]", "dependencies: x", "a: ["])
def test_an_invalid_environment_is_refused(text: str) -> None:
    with pytest.raises(BadInputError):
        parse_conda_environment(text, "/p/environment.yml", {}.__getitem__, lambda _: False)
