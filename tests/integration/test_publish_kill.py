"""Publishing killed at any time, concurrent with other admins, or on a full disk: users never load a broken module."""

from __future__ import annotations

import os
import random
import re
import shlex
import signal
import subprocess
import threading
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tests.integration.conftest import make_images, moments
from tests.integration.publishing import Site, make_site
from tests.integration.test_disk_full import MIB, SmallDisk, disk  # noqa: F401 - a fixture
from tests.stack import ModuleTool, until

pytestmark = pytest.mark.stack

POINTS = 2
MEGABYTES = 20
CHANGES = 4


@pytest.fixture(scope="module")
def images(tiny_sif: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two images large enough that copying one takes a noticeable part of publishing."""
    return make_images(tiny_sif, tmp_path_factory.mktemp("images"), "one", "two", megabytes=MEGABYTES)


@pytest.fixture
def site(lmod: ModuleTool, tmp_path: Path) -> Site:
    return make_site(lmod, tmp_path)


def killed_after(site: Site, seconds: float, *words: str | Path) -> bool:
    """Start a verb, kill its process group after this many seconds, and return whether it was still running."""
    started = site.start(*words)
    try:
        started.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(started.pid, signal.SIGKILL)
        started.communicate()
    return started.returncode < 0


def test_publishing_killed_at_any_moment_shows_all_of_it_or_nothing(site: Site, images: list[Path]) -> None:
    one, two = images
    site.published(one, "1.0", "--alias", "stable")
    words = ("publish", two, "--name", "Toy", "--alias", "stable", "--check", "python --version", "--no-slurm")
    began = time.monotonic()
    site.does(*words, "--version", "2.0")
    whole = time.monotonic() - began
    seen = Counter[str]()
    site.does("catalogue", "undo")
    for number, moment in enumerate(moments(POINTS)):
        version = f"3.{number}"
        killed = killed_after(site, moment * whole, *words, "--version", version)
        stable, new = site.loaded("Toy/stable"), site.loaded(f"Toy/{version}")
        assert (stable, new) in (("one", ""), ("one", "two"), ("two", "two"))
        assert killed or stable == "two"
        seen[f"{'killed' * killed or 'ended'}, {'visible' if new else 'nothing to see'}"] += 1
        began = time.monotonic()
        site.does(*words, "--version", version)
        whole = whole if new else time.monotonic() - began  # the load of the machine may have changed
        assert site.loaded("Toy/stable") == "two"
        site.does("verify", f"Toy/{version}")
        site.does("catalogue", "undo")
    print(seen)
    assert seen["killed, nothing to see"] > 0, "all ended before their moment came"
    published = [line for line in site.journal() if line["verb"] == "publish"]
    assert len(published) == len({edit["version"] for line in published for edit in line["edits"]} - {""})
    assert not list((site.catalogue / ".staging").iterdir())
    assert not [path for path in staging(site) if path.is_file()]
    assert leftovers(site) == []


def staging(site: Site) -> list[Path]:
    """Return all paths in the publisher's private staging directory."""
    environ = site.environment()
    state = environ.get("XDG_STATE_HOME") or f"{environ['HOME']}/.local/state"
    return list(Path(state, "hpcmod", "staging").rglob("*"))


def test_eb_ends_with_the_publishing_that_started_it(site: Site, tiny_sif: Path, tmp_path: Path) -> None:
    started = tmp_path / "pid"
    code = f"import os, time; open({str(started)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    check = f"python3 -c {shlex.quote(code)}"
    program = tmp_path / "bin" / "eb"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nexec {check}\n")
    program.chmod(0o755)
    path = f"{program.parent}:{site.environment()['PATH']}"
    for sent in (signal.SIGTERM, signal.SIGKILL):
        started.unlink(missing_ok=True)
        words = ["publish", str(tiny_sif), "--name", "Toy", "--version", "1.0", "--no-slurm"]
        publishing = subprocess.Popen(
            site.argv(*words), env={**site.environment(), "PATH": path}, cwd=site.top, start_new_session=True
        )
        assert until(lambda: started.exists() and bool(started.read_text()))
        eb = Path("/proc", started.read_text())
        publishing.send_signal(sent)
        assert publishing.wait(60) in (-sent, 128 + sent)
        assert until(lambda: not eb.exists() or " Z " in (eb / "stat").read_text())  # noqa: B023
    site.published(tiny_sif, "1.0")
    assert site.user("module load Toy/1.0 && echo loaded").stdout == "loaded\n"


def leftovers(site: Site) -> list[str]:
    """Return what only a running or killed verb leaves on disk."""
    names = [path.name for path in site.catalogue.rglob("*")]
    return [name for name in names if "hpcmod-part" in name or name.endswith(".lock") or name == "pending.json"]


@dataclass
class Users:
    """A thread that loads modules repeatedly, as users would."""

    site: Site
    said: Counter[str] = field(default_factory=Counter)
    stopped: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Users:
        self._thread = threading.Thread(target=self._load)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        self._thread.join()

    def _load(self) -> None:
        """Load by each name in short-lived shells, and count each outcome."""
        script = (
            "for i in {1..5}; do for name in Toy Toy/stable Toy/1.0 Toy/2.0; do\n"
            'module load $name 2>/tmp/hpcmod-said-$$; rc=$?; [ -f "$SIF" ] && there=image || there=none\n'
            "said=$(tr '\\n' ' ' </tmp/hpcmod-said-$$)\n"
            'echo "$name rc=$rc $there | $said"; module purge 2>/dev/null; unset SIF\n'
            "done; done; rm -f /tmp/hpcmod-said-$$"
        )
        while not self.stopped.is_set():
            for line in self.site.user(script).stdout.splitlines():
                self.said[line] += 1


def test_while_admins_race_failed_loads_name_a_replacement(site: Site, images: list[Path]) -> None:
    site.published(images[0], "1.0", "--alias", "stable")
    site.published(images[1], "2.0", "--alias", "latest")
    site.published(images[1], "0.9")
    site.does("catalogue", "deprecate", "Toy/0.9")
    one = [("promote", "Toy/2.0"), ("retire", "Toy/1.0", "--successor", "Toy/2.0"), ("restore", "Toy/1.0")]
    two = [("promote", "Toy/1.0"), ("promote", "Toy/2.0", "--alias", "latest"), ("retire", "Toy/0.9"), ("undo", "4")]
    chance = random.Random(4)  # noqa: S311 - no secret
    before = len(site.journal())
    with Users(site) as users:
        for _ in range(CHANGES):
            admins = [site.start("catalogue", *chance.choice(words)) for words in (one, two)]
            if chance.random() < 0.3:
                time.sleep(chance.random() * 0.6)
                os.killpg(admins[0].pid, signal.SIGKILL)
            said = [admin.communicate()[0].decode() for admin in admins]
            assert all(admin.returncode in (0, 2, -signal.SIGKILL) for admin in admins), said
    print(users.said)
    assert sum(users.said.values()) >= 8
    wrong = [line for line in users.said if "rc=0 image" not in line and "Use Toy/2.0 instead" not in line]
    assert wrong == []
    assert not [line for line in users.said if line.startswith(("Toy rc=1", "Toy/stable rc=1", "Toy/2.0 rc=1"))]
    assert [line["id"] for line in site.journal()] == list(range(1, len(site.journal()) + 1))
    assert len(site.journal()) > before
    site.does("catalogue", "rebuild")
    assert leftovers(site) == []


def test_of_two_admins_publishing_the_same_one_publishes(site: Site, images: list[Path]) -> None:
    words = ("--name", "Toy", "--version", "1.0", "--no-slurm")
    both = [site.start("publish", images[0], *words) for _ in range(2)]
    said = [admin.communicate()[0].decode() for admin in both]
    assert [admin.returncode for admin in both] == [0, 0], said
    assert sum("is already published with this image" in one for one in said) == 1
    assert sum("waiting for process" in one for one in said) == 1
    assert [line["verb"] for line in site.journal()] == ["publish"]
    other = [site.start("publish", image, "--name", "Toy", "--version", "2.0", "--no-slurm") for image in images]
    said = [admin.communicate()[0].decode() for admin in other]
    assert sorted(admin.returncode for admin in other) == [0, 2], said
    assert site.loaded("Toy/2.0") in ("one", "two")
    site.does("verify", "Toy/2.0")
    assert site.hpcmod("verify", "Toy/2.0", "--key", "x.pub").returncode == 2, "a key is for an image"


def test_a_full_disk_publishes_nothing_and_removes_nothing(
    lmod: ModuleTool,
    tmp_path: Path,
    images: list[Path],
    disk: SmallDisk,  # noqa: F811 - the fixture
) -> None:
    site = replace(Site(lmod, tmp_path), top=disk.place)
    env = site.environment(HOME=str(tmp_path), EASYBUILD_PREFIX=str(tmp_path / "own"))

    def hpcmod(*words: str | Path) -> tuple[int, str]:
        done = disk(*site.argv(*words), env=env)
        return done.returncode, done.stderr

    def publish(version: str) -> tuple[int, str]:
        return hpcmod("publish", images[0], "--name", "Toy", "--version", version, "--no-slurm")

    def listed() -> list[str]:
        found = disk("find", str(site.catalogue), "-not", "-path", "*/.locks/*", "-printf", "%P\\n").stdout
        return sorted(found.splitlines())

    assert hpcmod("catalogue", "init", site.catalogue)[0] == 0
    assert publish("1.0")[0] == 0
    before, size = listed(), images[0].stat().st_size
    for free in (size // 2, size + (32 << 10)):
        disk.leave_free(free)
        code, said = publish("2.0")
        assert (code in (1, 5), "Traceback" in said) == (True, False), said
        assert re.search("[Nn]o space", said)
        assert listed() == before
    disk.leave_free(0)
    code, said = hpcmod("catalogue", "deprecate", "Toy/1.0")
    assert (code, "Traceback" in said) == (5, False), said
    assert listed() == before
    # a disk filled to its last byte can be undone and emptied
    disk("cp", str(images[1]), str(site.catalogue / "images/Other-1.sif"))
    disk("sh", "-c", f"cat /dev/zero >{disk.place}/rest; ls >>{disk.place}/rest")
    assert disk.free() == 0
    for words in (("undo",), ("undo", "2"), ("gc", "--days", "0")):
        assert hpcmod("catalogue", *words)[0] == 0, words
        assert disk.free() > 0 or words[0] == "undo"
    assert hpcmod("verify", "Toy/1.0")[0] == 0
    disk.leave_free(size + 8 * MIB)
    assert hpcmod("catalogue", "deprecate", "Toy/1.0")[0] == 0
    assert publish("2.0")[0] == 0
    assert hpcmod("verify", "Toy/2.0")[0] == 0
