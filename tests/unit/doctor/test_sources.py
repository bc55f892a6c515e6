from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hpcmod.core import resources
from hpcmod.core.values.finding import Finding
from hpcmod.doctor.sources import check_profile, check_sources
from hpcmod.machine.values.profile import parse_profile


def find(text: str, checkouts: Path | None = None) -> list[Finding]:
    return list(check_sources(parse_profile(text, "x.toml"), text, checkouts))


def git(*words: str, directory: Path) -> str:
    settings = ["-c", "user.name=x", "-c", "user.email=x@y.z", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *settings, *words], cwd=directory, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def cited(tmp_path: Path) -> str:
    """Return a commit of tmp_path/a/b, after which changed.md was changed, removed.md removed, and same.md kept."""
    directory = tmp_path / "a" / "b"
    directory.mkdir(parents=True)
    git("init", "--quiet", directory=directory)
    for name in ("same.md", "changed.md", "removed.md"):
        (directory / name).write_text("64 cores\n")
    git("add", ".", directory=directory)
    git("commit", "--quiet", "-m", "first", directory=directory)
    commit = git("rev-parse", "HEAD", directory=directory)
    (directory / "changed.md").write_text("128 cores\n")
    git("rm", "--quiet", "removed.md", directory=directory)
    git("commit", "--quiet", "-am", "second", directory=directory)
    return commit


def profile_of(place: str) -> str:
    return f'name = "x"\n[sources]\ndocs = "{place} 2026-01-02"\n[caches]\n# [docs]\nroot = "/a"\n'


@pytest.mark.parametrize("name", sorted(resources.site_profiles()))
def test_every_value_of_a_shipped_profile_has_a_source_that_can_be_read(name: str) -> None:
    text = resources.site_profiles()[name]
    profile = parse_profile(text, f"{name}.toml")
    found = list(check_sources(profile, text, None))
    assert [(one.line, one.found, one.cure) for one in found if one.level != "ok"] == []
    assert profile.values["tried"]


def test_the_sources_of_a_value_are_listed_with_their_dates() -> None:
    text = (
        'name = "x"\n[sources]\na = "o/n@0123456789abcd:p.md 2026-01-02"\nb = "o/n#3 2026-01-03"\n'
        '[caches]\n# [a], [b]\nroot = "/a"\n# [ours]\nnode_local = "/tmp"\n'
    )
    assert [(one.level, one.line, one.found) for one in find(text)] == [
        ("ok", 7, "caches.root: o/n@0123456789abcd:p.md 2026-01-02; o/n#3 2026-01-03"),
        ("ok", 9, "caches.node_local: a choice of hpcmod"),
    ]


def test_a_value_without_a_source_fails() -> None:
    (found,) = find('name = "x"\n[caches]\n# the handbook\nroot = "/a"\n')
    assert (found.level, found.line, found.found) == ("fail", 4, "caches.root has no source")


def test_a_tag_that_is_not_among_the_sources_fails() -> None:
    (found,) = find('name = "x"\n[caches]\n# [docs], [ours]\nroot = "/a"\n')
    assert (found.level, found.found) == ("fail", "caches.root names docs")


def test_a_source_of_nothing_is_a_warning() -> None:
    (found,) = find('name = "x"\n[sources]\ndocs = "o/n#3 2026-01-03"\n')
    assert (found.level, found.subject) == ("warn", "x.toml [docs]")


@pytest.mark.parametrize(
    ("file", "level", "says"),
    [
        ("same.md", "ok", "is as in HEAD"),
        ("changed.md", "warn", "changed.md was changed by"),
        ("removed.md", "warn", "removed.md was removed by"),
        ("never.md", "unknown", "never.md is not in"),
    ],
)
@pytest.mark.slow
def test_the_cited_file_is_compared_with_a_clone(cited: str, tmp_path: Path, file: str, level: str, says: str) -> None:
    found = find(profile_of(f"a/b@{cited}:{file}"), tmp_path)[-1]
    assert (found.level, says in found.found) == (level, True)


def test_bare_clones_are_read_too(cited: str, tmp_path: Path) -> None:
    git("clone", "--quiet", "--bare", "a/b", "bare/a/b", directory=tmp_path)
    assert find(profile_of(f"a/b@{cited}:changed.md"), tmp_path / "bare")[-1].level == "warn"


def test_an_absent_clone_and_an_unknown_commit_are_not_known(cited: str, tmp_path: Path) -> None:
    absent = find(profile_of(f"a/c@{cited}:same.md"), tmp_path)[-1]
    assert (absent.level, "git clone --bare" in absent.cure) == ("unknown", True)
    assert find(profile_of("a/b@0123456789abcdef:same.md"), tmp_path)[-1].level == "unknown"


def test_issues_and_pages_are_not_compared(tmp_path: Path) -> None:
    assert len(find(profile_of("a/b#1"), tmp_path)) == len(find(profile_of("https://a.b/c"), tmp_path)) == 1


def test_a_value_without_a_comment_has_no_source() -> None:
    text = 'name = "x"\n\n[nodes.gpu]\n# the handbook\ncores = 8\ngpus = 2\n\n[job]\nslurm = "24.11"\n'
    found = list(check_profile(parse_profile(text, "x.toml"), text))
    assert [(one.level, one.rule, one.line) for one in found] == [("warn", "no-source", 9), ("ok", "profile", 0)]
    assert found[-1].found == "3 values, 2 with a comment about their source"
