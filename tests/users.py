"""Several users on one machine without root: a user namespace that maps a range of user and group IDs.

`alice` is the user who runs the tests. `mallory` is another user in her group, `carol` is in none of her groups. To the
kernel all three are real: modes, sticky bits and ownership apply between them.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

TEAM = 20
"""ID of alice's and mallory's group, inside the namespace."""

_NUMBERS = {"mallory": 2, "carol": 3}
_GROUPS = {"alice": (TEAM,), "mallory": (TEAM,), "carol": ()}
_FIRST, _COUNT = 0, 100  # IDs in the namespace that map to the first of /etc/subuid and /etc/subgid; 0 is root


@dataclass(frozen=True)
class Users:
    """Runs programs as several users."""

    namespace: int
    """ID of the process that keeps the user namespace open."""
    directory: Path
    """A directory that everyone can enter, and only root of the namespace can write."""

    def argv(self, user: str, *command: str | Path) -> list[str]:
        """Return the argument list that runs a command as `alice`, `mallory`, `carol` or `root` of the namespace."""
        enter = ["nsenter", "--target", str(self.namespace), "--user", "--setuid", "0", "--setgid", "0"]
        if user == "root":
            return [*enter, *map(str, command)]
        uid = _NUMBERS.get(user, os.getuid())
        gid = _NUMBERS.get(user, os.getgid())
        groups = ",".join(map(str, (gid, *_GROUPS[user])))
        own = ["setpriv", "--reuid", str(uid), "--regid", str(gid), "--groups", groups]
        return [*enter, *own, *map(str, command)]

    def run(
        self,
        user: str,
        *command: str | Path,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        check: bool = True,
        timeout: float = 60,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as a user; fails if the command fails, unless `check` is False."""
        done = subprocess.run(
            self.argv(user, *command), cwd=cwd, env=env, capture_output=True, text=True, timeout=timeout, check=False
        )
        assert not check or done.returncode == 0, f"{user}: {command} ended with {done.returncode}:\n{done.stderr}"
        return done

    def sh(self, user: str, script: str) -> str:
        """Run shell commands as a user; return what they print."""
        return self.run(user, "sh", "-euc", script).stdout

    def make_directory(self, name: str, *, owner: str, mode: int, group: int | None = None) -> Path:
        """Make a user's directory in `directory`; its group is `group` or, if None, the user's own."""
        path = self.directory / name
        uid = _NUMBERS.get(owner, os.getuid())
        gid = _NUMBERS.get(owner, os.getgid()) if group is None else group
        self.sh("root", f"mkdir -p '{path}'; chown {uid}:{gid} '{path}'; chmod {mode:o} '{path}'")
        return path

    def shared_directory(self, name: str, mode: int = 0o2775) -> Path:
        """Make a directory of alice's that her team can write."""
        return self.make_directory(name, owner="alice", mode=mode, group=TEAM)


@contextlib.contextmanager
def several_users() -> Iterator[Users]:
    """Return several users, and a directory for them that is removed at the end."""
    directory = Path(tempfile.mkdtemp(prefix="hpcmod-users-", dir="/tmp"))
    holder = subprocess.Popen(["unshare", "--user", "sleep", "infinity"])
    try:
        _map_numbers(holder.pid)
        users = Users(holder.pid, directory)
        users.sh("root", f"chown 0:0 '{directory}'; chmod 755 '{directory}'")
        yield users
        users.sh("root", f"chown -R {os.getuid()}:{os.getgid()} '{directory}'; chmod -R u+rwX '{directory}'")
    finally:
        holder.kill()
        holder.wait()
        shutil.rmtree(directory, ignore_errors=True)


def _map_numbers(pid: int) -> None:
    own = Path("/proc/self/ns/user").readlink()
    while Path(f"/proc/{pid}/ns/user").readlink() == own:
        time.sleep(0.01)
    for program, file, mine in (
        ("newuidmap", "/etc/subuid", os.getuid()),
        ("newgidmap", "/etc/subgid", os.getgid()),
    ):
        ours = [str(_FIRST), _first_of(file), str(_COUNT), str(mine), str(mine), "1"]
        subprocess.run([program, str(pid), *ours], check=True)


def _first_of(file: str) -> str:
    """Return the first number of this user's range."""
    name = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    lines = [line.split(":") for line in Path(file).read_text(encoding="utf-8").splitlines()]
    found = [first for who, first, _ in lines if who in (name, str(os.getuid()))]
    assert found, f"no line for {name} in {file}: sudo usermod --add-subuids 100000-165535 --add-subgids ... {name}"
    return found[0]
