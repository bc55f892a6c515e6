"""Files for forges and other tools: each must be valid, and CI must run the same commands everywhere."""

from __future__ import annotations

import configparser
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

import hpcmod
from tests.stack import CHECKOUT

SETUP = configparser.ConfigParser()
SETUP.read(CHECKOUT / "setup.cfg")
WORKFLOWS = (".github/workflows/test.yml", ".forgejo/workflows/test.yml", ".gitlab-ci.yml")


def read_yaml(name: str) -> Any:
    return yaml.safe_load((CHECKOUT / name).read_text(encoding="utf-8"))


def commands_of(workflow: dict[str, Any]) -> Iterator[str]:
    """Yield the commands of a workflow that run tests: steps for GitHub and Forgejo, the script for GitLab."""
    for job in workflow.get("jobs", workflow).values():
        yield from (step["run"] for step in job.get("steps", ()) if "run" in step)
        yield from job.get("script", ())


@pytest.mark.parametrize("name", WORKFLOWS)
def test_workflows_run_all_tests_remove_one_room_and_try_another_release(name: str) -> None:
    assert [command for command in commands_of(read_yaml(name)) if "apt-get" not in command] == [
        "./dev/test",
        "./dev/without turn",
        "./dev/matrix turn",
    ]


@pytest.mark.parametrize("name", WORKFLOWS)
def test_workflows_run_on_debian_12_as_the_readme_says(name: str) -> None:
    text = (CHECKOUT / name).read_text(encoding="utf-8")
    assert "image: debian:12" in text or "-bookworm" in text


def test_the_citation_names_this_version_and_licence() -> None:
    citation = read_yaml("CITATION.cff")
    assert citation["version"] == hpcmod.__version__
    assert citation["license"] == SETUP["metadata"]["license"]
    assert citation["title"] == SETUP["metadata"]["name"]
    required = ("cff-version", "message", "title", "authors")  # the schema of CFF 1.2.0
    assert [key for key in required if not citation.get(key)] == []


def test_pre_commit_runs_the_linters_of_dev_test() -> None:
    (repository,) = read_yaml(".pre-commit-config.yaml")["repos"]
    hooks = {hook["id"]: hook for hook in repository["hooks"]}
    linted = (CHECKOUT / "dev" / "test").read_text(encoding="utf-8")
    assert all(command in linted for command in ("ruff check", "ruff format"))
    assert {"ruff-check", "ruff-format", "shellcheck", "fast-tests"} == set(hooks)
    assert hooks["fast-tests"]["entry"] == "./dev/test --fast"
    needed = {package for hook in hooks.values() for package in hook.get("additional_dependencies", ())}
    assert needed <= set(SETUP["options.extras_require"]["dev"].split())
