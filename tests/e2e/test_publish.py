"""Checks of a container under real Slurm: a failure on a node prevents publishing, a success records where it ran."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.publishing import Site
from tests.stack import Cluster, Done, ModuleTool

pytestmark = pytest.mark.stack


@dataclass(frozen=True)
class LoginNode:
    """The login node, where an admin publishes."""

    site: Site
    cluster: Cluster

    def __call__(self, *words: str | Path) -> Done:
        return self.cluster(*self.site.argv(*words), cwd=self.site.top, **self.site.environment())


@pytest.fixture
def login(cluster: Cluster, lmod: ModuleTool, tmp_path: Path) -> LoginNode:
    found = LoginNode(Site(lmod, tmp_path), cluster)
    done = found("catalogue", "init", found.site.catalogue)
    assert done.returncode == 0, done.stderr
    return found


def test_checks_run_on_this_machine_and_as_a_job_step(login: LoginNode, tiny_sif: Path) -> None:
    here = login.site.top / "here"
    words = ("publish", tiny_sif, "--name", "Toy", "--version", "1.0", "--slurm", "--time=1")
    checks = ("--check", f"python --version && echo x$SLURM_PROCID >>{here}", "--job-check", "hostname | grep nid00")
    done = login(*words, *checks)
    assert done.returncode == 0, done.stderr
    assert here.read_text() == "x\nx0\n"
    checks_ = login.site.record("1.0")["checks"]
    assert [(one["under"], one["passed"]) for one in checks_] == [
        ("", True),
        ("", True),
        ("slurm", True),
        ("slurm", True),
    ]
    again = login("verify", "--checks", "Toy/1.0")
    assert again.returncode == 0, again.stdout
    assert here.read_text() == "x\nx0\n" * 2


def test_a_failed_check_on_a_node_prevents_publishing(login: LoginNode, tiny_sif: Path) -> None:
    words = ("publish", tiny_sif, "--name", "Toy", "--version", "1.0")
    done = login(*words, "--job-check", "echo no GPU here; exit 3")
    assert done.returncode == 1
    assert "a check of Toy/1.0 failed under Slurm (exit code 3): echo no GPU here; exit 3\n  no GPU here" in done.stderr
    assert "--slurm '-A ACCOUNT'" in done.stderr
    assert not (login.site.modules / "Toy").exists()


def test_a_check_for_nodes_without_slurm_is_refused_before_anything_is_visible(
    lmod: ModuleTool, tiny_sif: Path, tmp_path: Path
) -> None:
    site = Site(lmod, tmp_path)
    site.does("catalogue", "init", site.catalogue)
    done = site.publish(tiny_sif, "1.0", "--job-check", "true")
    assert done.returncode == 7
    assert "some checks need a job step" in done.stderr
    assert not (site.modules / "Toy").exists()
