"""Every command is tested with fault injection, or listed as changing nothing."""

from __future__ import annotations

import os
import re
from pathlib import Path

import click
import pytest

from hpcmod.core.registry import ROOMS
from tests.calls import all_commands
from tests.faults.compare import describe_state
from tests.faults.inject import Point
from tests.faults.scenes import NOT_TRIED, SCENES
from tests.faults.snapshot import Snapshot
from tests.faults.trials import Choice, choose
from tests.stack import ModuleTool, Stack, run

CHECKOUT = Path(__file__).resolve().parents[2]


def test_each_command_that_changes_something_is_tried_with_faults() -> None:
    tried = {" ".join(words) for scene in SCENES.values() for words in (scene.words[:count] for count in (1, 2, 3))}
    commands = {line for line, command in all_commands() if not isinstance(command, click.Group)}
    # add a scene for each new command to tests/faults/scenes.py
    others = {command for room in ROOMS for command in NOT_TRIED.get(room, ())}
    assert commands - tried - others == set()
    assert others - commands == set()


def test_the_page_names_each_file_that_looks_at_the_number_of_an_error() -> None:
    """In all other files, a fault has the same effect whatever its error number."""
    looks = re.compile(r"errno\.(EIO|ENOSPC|EDQUOT|ESTALE)\b|\bFULL\b|Errno ")
    sources = CHECKOUT / "src/hpcmod"
    found = {str(path.relative_to(sources)) for path in sources.rglob("*.py") if looks.search(path.read_text())}
    page = (CHECKOUT / "docs/explanation/interrupted.md").read_text()
    rows = page.partition("| source file |")[2].partition("\n\n")[0].splitlines()
    assert {name for row in rows for name in re.findall(r"`([\w/]+\.py)`", row)} == found


def test_both_tries_errors_at_places_and_kills_and_full_disks_at_points() -> None:
    points = [Point("write", number, "", "a", "write < x.py:1") for number in range(1, 6)]
    points.append(Point("fsync", 9, "", "b", "fsync < x.py:2"))
    chosen = [(point.number, fault) for point, fault in choose(points, Choice(100, both=True))]
    errors = [(1, "EIO"), (3, "EDQUOT"), (5, "ESTALE"), (9, "EIO"), (9, "EDQUOT"), (9, "ESTALE")]
    assert chosen == [*errors, *((point.number, fault) for point in points for fault in ("KILL", "ENOSPC"))]


LOCK = '{"host": "h", "pid": 17, "started": "1", "user": "ada", "since": "2026-11-21 00:00:00", "token": "ab"}'


@pytest.mark.parametrize(
    ("name", "content", "same"),
    [
        (".x.hpcmod-part-1234abcd-17-99-0011aabb", LOCK, True),  # nothing has changed
        (".x.hpcmod-part-1234abcd-18-100-ccddeeff", LOCK, True),
        (".y.hpcmod-part-1234abcd-17-99-0011aabb", LOCK, False),
        (".x.hpcmod-part-1234abcd-17-99-0011aabb", LOCK.replace("17", "18").replace("21 00", "22 10"), True),
        (".x.hpcmod-part-1234abcd-17-99-0011aabb", LOCK.replace("ada", "bob"), False),
        (".x.hpcmod-part-1234abcd-17-99-0011aabb", LOCK[:40], False),
        ("x", LOCK, False),
        (None, LOCK, False),
    ],
)
@pytest.mark.parametrize("place", ["top", "tmp/hpcmod-work"])
def test_what_a_dead_process_left_counts_but_not_its_number(
    place: str, name: str | None, content: str, same: bool, tmp_path: Path
) -> None:
    directory, top, temporary = tmp_path / place, tmp_path / "top", tmp_path / "tmp"
    for path in (top, temporary, directory):
        path.mkdir(exist_ok=True)
    kept = directory / ".x.hpcmod-part-1234abcd-17-99-0011aabb"
    kept.write_text(LOCK)
    before = describe_state(top, temporary)
    kept.unlink()
    if name:
        (directory / name).write_text(content)
    assert (describe_state(top, temporary) == before) == same


SPARE = """
import os
from hpcmod.modules.eb import run_eb
from tests.faults import spare
spare.import_easybuild()
spare.fork_spares()
spare.become(["hpcmod"], dict(os.environ), "/")
done = run_eb(["--version"], os.environ)
print(done.status, done.stdout, done.stderr, len(spare._Popen.spares), "left")
"""


@pytest.mark.stack
def test_eb_runs_in_a_process_that_has_imported_it(stack: Stack, tmp_path: Path) -> None:
    environ = {**ModuleTool(stack, tmp_path, "lmod").environment(), "PYTHONPATH": str(CHECKOUT)}
    done = run([str(stack.python), "-c", SPARE], environ, tmp_path)
    assert re.fullmatch(r"0 This is EasyBuild \S+ .*\n+ +2 left\n", done.stdout), done
    assert done.stderr == ""


def test_only_what_changed_is_restored(tmp_path: Path) -> None:
    top = tmp_path / "top"
    (top / "a/b").mkdir(parents=True)
    for name in ("same", "changed", "removed", "a/b/deep"):
        (top / name).write_text(name)
    (top / "link").symlink_to("same")
    os.utime(top / "a", ns=(1, 1))
    snapshot, before = Snapshot(top, tmp_path / "copy"), (top / "same").stat()
    (top / "changed").write_text("x")
    (top / "removed").unlink()
    (top / "added").mkdir()
    (top / "link").unlink()
    (top / "link").mkdir()
    (top / "a/b/deep").rename(top / "added/deep")
    (top / "a").chmod(0o500)
    snapshot.restore()
    assert {str(path.relative_to(top)) for path in top.rglob("*")} == {
        *("same", "changed", "removed", "link", "a", "a/b", "a/b/deep")
    }
    assert (top / "changed").read_text() == "changed"
    assert (top / "a/b/deep").read_text() == "a/b/deep"
    assert (top / "link").readlink().name == "same"
    assert ((top / "a").stat().st_mtime_ns, (top / "a").stat().st_mode & 0o777) == (1, 0o755)
    assert (top / "same").stat().st_ino == before.st_ino
