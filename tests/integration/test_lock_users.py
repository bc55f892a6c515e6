"""Locks of different users on one machine: a lock holder counts as alive even if /proc hides its process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.users import Users

HOLD = """
import sys, time
from pathlib import Path
from hpcmod.core.lock import hold
with hold(Path(sys.argv[1]), limit=None, tell=print, on_stale=lambda: None):
    Path(sys.argv[2]).touch()
    time.sleep(60)
"""

LOOK = """
import sys
from pathlib import Path
from hpcmod.core import lock
from hpcmod.core.errors import BusyError
lock.SILENCE = 0.5
holder = lock.read_holder(Path(sys.argv[1]))
print("visible" if Path("/proc", str(holder.pid), "stat").exists() else "hidden", end=" ")
print("dead" if holder.is_dead() else "alive", end=" ")
try:
    with lock.hold(Path(sys.argv[1]), limit=1.0, tell=lambda line: None, on_stale=lambda: print("stale")):
        print("inside")
except BusyError as err:
    print("silent" if "no heartbeat" in err.message else "busy")
"""

IN_NAMESPACE = """
mount -t proc -o {option} proc /proc
setpriv --reuid {alice} --regid 20 --clear-groups {python} -c '{hold}' {lock} {ready} &
while [ ! -e {ready} ]; do sleep 0.1; done
{stop}
setpriv --reuid 2 --regid 20 --clear-groups {python} -c '{look}' {lock}
kill -9 $!
wait
setpriv --reuid 2 --regid 20 --clear-groups {python} -c '{look}' {lock}
"""
"""Root in the namespace, with its own /proc, starts a lock holder as alice and checks the lock as mallory."""


@pytest.mark.parametrize(("option", "seen"), [("hidepid=0", "visible"), ("hidepid=2", "hidden")])
@pytest.mark.parametrize("stop", ["", "kill -STOP $!"])
def test_the_lock_of_another_user_who_lives_is_waited_for(
    users: Users, option: str, seen: str, stop: str, tmp_path: Path
) -> None:
    shared = users.shared_directory(f"{option}-{bool(stop)}".replace("=", "-"))
    lock, ready = shared / "a.lock", shared / "ready"
    script = IN_NAMESPACE.format(
        option=option, stop=stop, alice=os.getuid(), python=sys.executable, hold=HOLD, look=LOOK, lock=lock, ready=ready
    )
    done = users.run("root", "unshare", "--mount", "--pid", "--fork", "sh", "-c", script, check=False)
    assert done.stdout.splitlines() == [f"{seen} alive busy", "hidden dead stale", "inside"], done.stderr
