from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hpcmod.building.engines import workspace
from hpcmod.building.engines.workspace import build_directory, open_workspace, remove_workspace
from hpcmod.core.errors import LackingError
from hpcmod.core.fs.temporary import PRIVATE

ENVIRON = {"PATH": os.environ["PATH"]}


def test_a_workspace_is_removed_with_its_content_even_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyError), open_workspace(tmp_path, "x.sif", ENVIRON) as workspace:
        (workspace.temporary / "read-only").mkdir()
        (workspace.temporary / "read-only" / "file").touch()
        (workspace.temporary / "read-only").chmod(0o500)
        (workspace.directory / "dangling").symlink_to("nowhere")
        raise KeyError
    assert list(tmp_path.iterdir()) == []
    assert not workspace.runroot.exists()


def test_a_workspace_is_empty_even_after_an_earlier_build(tmp_path: Path) -> None:
    left = build_directory(tmp_path, "x.sif") / "storage"
    left.mkdir(parents=True)
    left.parent.chmod(PRIVATE)
    with open_workspace(tmp_path, "x.sif", ENVIRON) as workspace:
        assert not left.exists() and sorted(path.name for path in workspace.directory.iterdir()) == ["context", "tmp"]


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o2770, 0o1777])
def test_other_directory_at_the_workspace_path_is_kept(tmp_path: Path, mode: int) -> None:
    renamed = build_directory(tmp_path, "x.sif")
    (renamed / "thesis").mkdir(parents=True)
    renamed.chmod(mode)
    with (
        pytest.raises(LackingError, match="not a build directory of hpcmod"),
        open_workspace(tmp_path, "x.sif", ENVIRON),
    ):
        pass
    assert (renamed / "thesis").is_dir()


def test_another_images_place_is_left_unchanged(tmp_path: Path) -> None:
    with open_workspace(tmp_path, "x.sif", ENVIRON) as mine, open_workspace(tmp_path, "y.sif", ENVIRON) as other:
        assert mine.directory != other.directory and mine.runroot != other.runroot


@pytest.mark.parametrize("runtime", ["", "/nonexistent", "/tmp/" + "x" * 60], ids=["unset", "not there", "long"])
def test_the_directory_for_sockets_has_a_short_name_of_its_own(tmp_path: Path, runtime: str) -> None:
    deep = tmp_path / ("d" * 100)
    with open_workspace(deep, "x.sif", {**ENVIRON, "XDG_RUNTIME_DIR": runtime}) as workspace:
        assert len(str(workspace.runroot)) <= 50  # limit of podman and buildah
        assert workspace.runroot.stat().st_mode & 0o777 == 0o700


def test_a_link_in_place_of_the_socket_directory_is_removed_not_followed(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "file").touch()
    with open_workspace(tmp_path, "x.sif", ENVIRON) as workspace:
        runroot = workspace.runroot
    runroot.symlink_to(tmp_path / "target")
    with open_workspace(tmp_path, "x.sif", ENVIRON) as workspace:
        assert workspace.runroot == runroot and not runroot.is_symlink()
    assert (tmp_path / "target" / "file").exists()


def test_each_component_is_reported_once_when_it_begins(tmp_path: Path) -> None:
    told: list[str] = []
    lines = (
        "STEP 4/9: RUN env A=b bash /opt/hpcmod/build/01-mpich.sh",
        "+ env A=b bash /opt/hpcmod/build/01-mpich.sh",
        "make: bash /opt/hpcmod/build/07-no.sh",
        "#9 [ 5/12] RUN env bash /opt/hpcmod/build/02-finish.sh",
    )
    with open_workspace(tmp_path, "x.sif", ENVIRON, tell=told.append) as workspace:
        assert workspace.run(["printf", "%s\\n", *lines]) == 0
        assert told == ["step 01-mpich", "step 02-finish"] and workspace.step == "02-finish"
        assert workspace.said == list(lines) and workspace.log.read_text().splitlines() == list(lines)


SLOW = """
import os, sys
from pathlib import Path
from hpcmod.building.engines.workspace import open_workspace
with open_workspace(Path(sys.argv[1]), "x.sif", os.environ) as workspace:
    workspace.run(["bash", "-c", "sleep 300 & echo $! >pid; wait"])
"""


@pytest.mark.slow
def test_the_next_build_ends_processes_of_a_killed_one(tmp_path: Path) -> None:
    note = build_directory(tmp_path, "x.sif") / "pid"
    with subprocess.Popen([sys.executable, "-c", SLOW, str(tmp_path)]) as started:
        session = build_directory(tmp_path, "x.sif") / "session"
        while not (note.exists() and note.read_text().strip() and session.exists() and session.read_text()):
            time.sleep(0.05)
        pid = int(note.read_text())
        started.send_signal(signal.SIGKILL)
    os.kill(pid, 0)  # still running
    remove_workspace(build_directory(tmp_path, "x.sif"), ENVIRON)
    until = time.monotonic() + 30
    while runs(pid) and time.monotonic() < until:  # a killed process takes a moment to exit
        time.sleep(0.05)
    assert not runs(pid) and list(tmp_path.iterdir()) == []


def runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_a_process_that_has_only_the_number_of_an_earlier_build_is_left_unchanged(tmp_path: Path) -> None:
    directory = build_directory(tmp_path, "x.sif")
    directory.mkdir(mode=PRIVATE)
    with subprocess.Popen(["sleep", "300"], start_new_session=True) as other:
        (directory / "session").write_text(f"{other.pid} 1")  # a start time of one clock tick after boot
        remove_workspace(directory, ENVIRON)
        assert other.poll() is None
        other.kill()


def test_a_process_of_another_machine_that_sees_the_same_disk_is_left_unchanged(tmp_path: Path) -> None:
    directory = build_directory(tmp_path, "x.sif")
    directory.mkdir(mode=PRIVATE)
    argv = ["bash", "-c", "sleep 300 >/dev/null & echo $$ $!"]  # the leader exits: no start time identifies it
    done = subprocess.run(argv, start_new_session=True, stdout=subprocess.PIPE, text=True, check=True)
    session, member = map(int, done.stdout.split())
    (directory / "session").write_text(f"{session} 1 00000000-0000-0000-0000-000000000000")
    remove_workspace(directory, ENVIRON)
    assert runs(member) and not directory.exists()
    os.kill(member, signal.SIGKILL)


def test_workspace_of_another_user_is_refused_and_its_session_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = build_directory(tmp_path, "x.sif")
    directory.mkdir(mode=PRIVATE)
    with subprocess.Popen(["sleep", "300"], start_new_session=True) as mine:
        started = Path(f"/proc/{mine.pid}/stat").read_text().rpartition(")")[2].split()[19]
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        (directory / "session").write_text(f"{mine.pid} {started} {boot}")
        owner = os.geteuid()
        with monkeypatch.context() as other:  # simulate another user, because only root could switch to one
            other.setattr(os, "geteuid", lambda: owner + 1)
            with (
                pytest.raises(LackingError, match=f"belongs to user {owner}"),
                open_workspace(tmp_path, "x.sif", ENVIRON),
            ):
                pass
        assert mine.poll() is None
        remove_workspace(directory, ENVIRON)
        assert mine.wait(timeout=20) == -signal.SIGKILL


@pytest.mark.parametrize("user", [0, 1])
def test_what_an_engine_of_root_left_mounted_is_unmounted(user: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[list[str]] = []
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(workspace, "run", ran.append)
    workspace._unmount_below(Path("/proc"))
    assert (["umount", "-l", "/proc"] in ran) == (user == 0)
