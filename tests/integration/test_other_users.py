"""Another group member, a real second user, attacks the users of shared directories."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.catalogue.records.store import open_catalogue, render_catalogue
from hpcmod.core.errors import explain_os_error
from hpcmod.core.fs.ownership import user_name
from hpcmod.core.fs.replacing import scratch
from hpcmod.core.fs.temporary import resumable_name
from tests.catalogues import make_record
from tests.corpus import make_random
from tests.host_commands import started
from tests.preloaded import HPCMOD, call
from tests.registry import Registry
from tests.stack import CHECKOUT, Done, ModuleTool, run
from tests.unit.catalogue.stage import add, make_shop
from tests.users import Users

pytestmark = pytest.mark.stack

SWAP = """
cd "$1"
while :; do
    for part in .*.hpcmod-part* partial/*; do
        [ -e "$part" ] && [ ! -L "$part" ] && mv -f "$part" "moved-$$" 2>/dev/null && ln -s "$2" "$part" 2>/dev/null
        rm -rf "moved-$$" 2>/dev/null
    done
done
"""
"""Repeatedly replaces all temporary files with links."""


@pytest.fixture
def home(users: Users) -> Path:
    """The home directory of alice, who runs the tests; nobody else can enter it."""
    path = users.make_directory("home", owner="alice", mode=0o700)
    (path / "precious").mkdir()
    (path / "precious/thesis.txt").write_text("text")
    (path / "precious/thesis.txt").chmod(0o600)
    os.utime(path / "precious/thesis.txt", (0, 0))
    return path


def hpcmod(home: Path, *words: str | Path, **environ: str) -> Done:
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "HPCMOD_SITE": "generic", **environ}
    argv = [str(Path(sys.executable).with_name("hpcmod")), *map(str, words)]
    return call(Path(sys.executable), HPCMOD, argv, env, home, timeout=120) or run(argv, env, home, timeout=120)


def assert_untouched(home: Path) -> None:
    thesis = home / "precious/thesis.txt"
    assert (thesis.read_text(), thesis.stat().st_mode & 0o777) == ("text", 0o600)
    assert [path.name for path in thesis.parent.iterdir()] == ["thesis.txt"]


@contextlib.contextmanager
def mallory(users: Users, script: str, *arguments: Path) -> Iterator[None]:
    """Run a shell script as mallory until the block ends."""
    argv = users.argv("mallory", "sh", "-c", script, "sh", *arguments)
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        time.sleep(0.2)
        try:
            yield
        finally:
            users.sh("root", f"pkill -KILL -U 2 --ns {users.namespace} || true")
            running.kill()


@pytest.mark.parametrize("target", ["precious", "precious/thesis.txt"])
def test_a_fetch_into_a_shared_directory_writes_nothing_elsewhere(users: Users, home: Path, target: str) -> None:
    shared = users.shared_directory("shared")
    source = make_random(home / "source.sif", size=40 << 20)
    with mallory(users, SWAP, shared, home / target):
        for _ in range(3):
            done = hpcmod(home, "fetch", source, "-o", shared / "c.sif", "--force")
            assert "Traceback" not in done.stderr
    assert_untouched(home)


def test_the_group_cannot_read_or_write_temporary_files(users: Users, home: Path) -> None:
    shared = users.shared_directory("shared")
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom hpcmod.core.fs.replacing import replacing\n"
        "with replacing(Path(sys.argv[1])) as new:\n    new.write_text('secret')\n    print(flush=True)\n    input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(shared / "x")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout and running.stdin
        running.stdout.readline()
        for act in ("cat .x*/x", "echo evil >.x*/x", "ls .x*/", "rm .x*/x"):
            assert users.run("mallory", "sh", "-c", act, cwd=shared, check=False).returncode != 0
        running.stdin.write("\n")
    assert (shared / "x").read_text() == "secret"


FLIP = """
cd "$1" && mkdir -p partial && chmod 777 partial
: >"partial/$2" && chmod 666 "partial/$2"
while :; do printf XXXXXXXX | dd of="partial/$2" bs=1 seek=1000 conv=notrunc; done
"""
"""Creates a world-writable partial file for a blob first, and keeps writing to it."""


@pytest.mark.parametrize("mode", [0o2770])
def test_content_from_a_shared_cache_matches_its_digest(users: Users, registry: Registry, mode: int) -> None:
    """Mallory keeps changing the partial file, which must never be used without matching its digest."""
    layer = os.urandom(2 << 20)
    sum_of_layer = hashlib.sha256(layer).hexdigest()
    registry.push_image("users/flip", [layer])
    cache = users.shared_directory("cache", mode)
    with mallory(users, FLIP, cache, Path(sum_of_layer)):
        for _ in range(3):
            done = fetch_layers(registry, "users/flip", cache)
            assert "Traceback" not in done.stderr
            assert done.stdout.split() == [sum_of_layer] if done.returncode == 0 else not done.stdout


@pytest.mark.parametrize("mode", [0o777])
def test_a_shared_cache_opens_no_secret_behind_a_planted_link(
    users: Users, home: Path, registry: Registry, mode: int
) -> None:
    """Mallory replaces partial files with links to a private file, whose content and mode must not change."""
    registry.push_image("users/swap", [os.urandom(1 << 20) for _ in range(4)])
    cache = users.shared_directory("cache", mode)
    with mallory(users, SWAP, cache, home / "precious/thesis.txt"):
        for _ in range(3):
            assert "Traceback" not in fetch_layers(registry, "users/swap", cache).stderr
    assert_untouched(home)


def fetch_layers(registry: Registry, name: str, cache: Path) -> subprocess.CompletedProcess[str]:
    script = CHECKOUT / "tests/integration/fetch_image.py"
    argv = [sys.executable, script, f"docker://{registry.host}/{name}:1", cache]
    return subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)


def test_gc_removes_nothing_behind_the_link_of_another_member(users: Users, home: Path) -> None:
    """Mallory puts a link to alice's files among the installations, which gc must not follow."""
    shop = make_shop(users.shared_directory("shared") / "shop", "Toy/1.0")
    shop.directory.chmod(0o775)
    users.sh("root", f"chgrp -R 20 '{shop.directory}'; chmod -R g+w '{shop.directory}'")
    users.sh("mallory", f"ln -s '{home}/precious' '{shop.software}/Old'")
    done = hpcmod(home, "catalogue", "gc", "--yes", HPCMOD_CATALOGUE=str(shop.directory))
    assert "Traceback" not in done.stderr
    assert_untouched(home)


@pytest.mark.parametrize(
    "name", ["records/Toy/1.0.json", "catalogue.json", "index.json", "packages.json", "advisories/x.toml"]
)
def test_a_fifo_of_another_member_blocks_no_one(users: Users, home: Path, name: str) -> None:
    """Opening a FIFO for reading blocks until someone opens it for writing."""
    shop = make_shop(users.shared_directory("shared") / "shop", "Toy/1.0")
    users.sh("root", f"chgrp -R 20 '{shop.directory}'; chmod -R g+w '{shop.directory}'")
    users.sh("mallory", f"rm -f '{shop.directory}/{name}'; mkfifo -m 666 '{shop.directory}/{name}'")
    for words in (("ls",), ("info", "Toy/1.0"), ("catalogue", "verify")):
        done = hpcmod(home, *words, HPCMOD_CATALOGUE=str(shop.directory))
        assert "Traceback" not in done.stderr


@pytest.fixture
def shop(users: Users) -> Path:
    """Alice's catalogue, which her team can write to."""
    shop = make_shop(users.shared_directory("shared") / "shop", "Toy/1.0")
    root = shop.directory
    users.sh("root", f"chgrp -R 20 '{root}'; chmod -R g+w '{root}'; find '{root}' -type d -exec chmod 2775 {{}} +")
    shop = replace(open_catalogue(root), mode=0o2775)
    (root / "catalogue.json").write_text(render_catalogue(shop))
    return root


@pytest.fixture
def diary(users: Users, home: Path) -> Path:
    """Alice's private file and directories, which others can rename, as her team can write to their directory."""
    place = users.shared_directory("together")
    (place / "diary").write_text("secret")
    (place / "diary").chmod(0o600)
    (place / "data/mine").mkdir(parents=True)
    (place / "data/closed").mkdir(mode=0o700)
    (place / "data/closed/diary").write_text("secret")
    (place / "data/mine/thesis.txt").write_text("text")
    (place / "data/mine").chmod(0o755)
    users.sh(
        "root", f"chgrp 20 '{place}/data'; chmod 2775 '{place}/data'; touch -h -d @0 '{place}'/data/* '{place}/data'"
    )
    return place


def test_fix_modes_opens_no_private_file_that_a_member_renamed(
    users: Users, home: Path, shop: Path, diary: Path
) -> None:
    for name, at in (("diary", "images/x.sif"), ("data", "software/data")):
        users.sh("mallory", f"mv '{diary}/{name}' '{shop}/{at}'")
    users.sh("mallory", f"ln -s '{home}' '{shop}/images/link'")
    (shop / "images/Toy-1.0.sif").chmod(0o600)
    (shop / "software/Toy/1.0").chmod(0o700)
    (shop / "records/Toy").chmod(0o755)
    done = hpcmod(home, "catalogue", "verify", "--fix-modes", HPCMOD_CATALOGUE=str(shop))
    assert "images/x.sif" in done.stdout + done.stderr
    for path in ("images/x.sif", "software/data/closed/diary"):
        assert users.run("mallory", "cat", shop / path, check=False).returncode != 0
    assert users.run("mallory", "touch", shop / "software/data/mine/x", check=False).returncode != 0
    assert (home.stat().st_mode & 0o777) == 0o700
    ours = ("images/Toy-1.0.sif", "software/Toy/1.0", "records/Toy")
    assert [(shop / path).stat().st_mode & 0o777 for path in ours] == [0o664, 0o775, 0o775]


def test_the_owner_of_what_is_closed_is_named_and_the_rest_is_verified(users: Users, home: Path, shop: Path) -> None:
    add(open_catalogue(shop), make_record("Other/1.0"))
    users.sh("root", f"chown 2 '{shop}/images'; chmod 700 '{shop}/images'")
    ask = f"sk {user_name((shop / 'images').stat().st_uid)} to run: hpcmod catalogue verify --fix-modes"
    for words in (("verify",), ("verify", "--fix-modes")):
        done = hpcmod(home, "catalogue", *words, HPCMOD_CATALOGUE=str(shop))
        said = " ".join(done.stdout.split())
        assert (said.count("Permission denied A"), said.count(ask)) == (2, 3), done.stdout + done.stderr
        assert (f"not yours: a{ask}" in said, "If these files belong" in said) == (True, False)
    record = shop / "records/Toy/1.0.json"
    users.sh("root", f"chmod 755 '{shop}/images'; chown 2 '{record}'; chmod 600 '{record}'")
    assert f"A{ask}" in " ".join(hpcmod(home, "info", "Toy/1.0", HPCMOD_CATALOGUE=str(shop)).stderr.split())
    for place in (shop / "records", shop / "journal.jsonl"):
        users.sh("root", f"chown 2 '{place}'; chmod 700 '{place}'")
        done = hpcmod(home, "catalogue", "verify", HPCMOD_CATALOGUE=str(shop))
        assert f"{place}: Permission denied A{ask}" in " ".join(f"{done.stdout}{done.stderr}".split())
        users.sh("root", f"chmod 755 '{place}'")


@pytest.mark.parametrize(
    ("verb", "place"),
    [
        (("catalogue", "promote", "Toy/1.0"), "kept/Toy/1.0/easyconfig"),
        (("catalogue", "rebuild"), "kept/Toy/1.0/module.lua"),
    ],
)
def test_no_private_file_that_a_member_renamed_is_published(
    users: Users, home: Path, shop: Path, diary: Path, verb: tuple[str, ...], place: str
) -> None:
    users.sh("mallory", f"mv -f '{diary}/diary' '{shop}/{place}'")
    done = hpcmod(home, *verb, HPCMOD_CATALOGUE=str(shop))
    assert users.run("mallory", "grep", "-rl", "secret", shop, check=False).stdout == ""
    assert (done.returncode, place in done.stderr, "Traceback" in done.stderr) == (2, True, False), done.stderr


def test_gc_removes_nothing_that_the_member_who_renamed_it_could_not(
    users: Users, home: Path, shop: Path, diary: Path
) -> None:
    users.sh("mallory", f"mv '{diary}/data' '{shop}/software/data'")
    (shop / "software/Old/1").mkdir(parents=True)
    (shop / "software/Old/1/run").touch()
    old = f"'{shop}/software/Old'"
    users.sh("root", f"chgrp -R 20 {old}; chmod 2775 {old} {old}/1; touch -d @0 {old}/1")
    done = hpcmod(home, "catalogue", "gc", HPCMOD_CATALOGUE=str(shop))
    assert (done.returncode, "software/data/mine" in done.stdout) == (0, True), done.stderr
    assert (shop / "software/data/mine/thesis.txt").read_text() == "text"
    assert not (shop / "software/Old/1").exists()


@pytest.mark.parametrize("mark", ["copied", "moved"])
def test_docs_replaces_no_directory_that_a_member_renamed(
    users: Users, home: Path, shop: Path, diary: Path, mark: str
) -> None:
    pages = diary / "www"
    assert hpcmod(home, "catalogue", "docs", pages, HPCMOD_CATALOGUE=str(shop)).returncode == 0
    assert hpcmod(home, "catalogue", "docs", pages, HPCMOD_CATALOGUE=str(shop)).returncode == 0
    if mark == "moved":
        users.sh("root", f"chgrp 20 '{pages}'; chmod 2775 '{pages}'")
    users.sh("mallory", f"{'cp' if mark == 'copied' else 'mv'} '{pages}/.hpcmod-docs' '{diary}/data/'")
    users.sh("mallory", f"cd '{diary}'; mv www former; mv data www")
    done = hpcmod(home, "catalogue", "docs", pages, HPCMOD_CATALOGUE=str(shop))
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
    assert (pages / "mine/thesis.txt").read_text() == "text"
    assert not (pages / "index.html").exists()


@pytest.mark.parametrize("kind", ["mkdir", "touch"])
def test_reports_the_owner_of_a_conflicting_file_in_tmp(users: Users, kind: str) -> None:
    tmp = users.make_directory("tmp", owner="carol", mode=0o1777)
    name = resumable_name("c.sif")
    users.sh("mallory", f"cd '{tmp}'; {kind} {name}; [ {kind} = touch ] || touch {name}/x")
    with pytest.raises(OSError, match=r"belongs to user [0-9]+, and only they may remove it") as raised:
        scratch(tmp / "c.sif", resumable=True).__enter__()
    assert raised.value.filename == str(tmp / name)
    assert "--prefix" not in explain_os_error(raised.value).cure


EXCHANGE = """
cd "$1/software"; n=0
while :; do
    for one in New/1.0 New/1.0/bin; do
        [ -d $one ] && [ ! -L $one ] && n=$((n + 1)) && mv -T $one moved-$n && ln -s "$2" $one
    done
done
"""
"""Replaces each directory of a new installation with a link as soon as it appears."""


def test_what_eb_writes_goes_nowhere_else_while_a_member_exchanges_directories(
    users: Users, home: Path, shop: Path, lmod: ModuleTool, tiny_sif: Path
) -> None:
    """`eb` and its easyblock open files by path, so they must not work in directories that others can write to."""
    own = {"HOME": str(home), "HPCMOD_SITE": "generic", "HPCMOD_CATALOGUE": str(shop)}
    words = ("publish", tiny_sif, "--name", "New", "--version", "1.0", "--no-slurm")
    with mallory(users, EXCHANGE, shop, home / "precious"):
        done = hpcmod(home, *words, **{**lmod.environment(), **own})
    assert_untouched(home)
    # The replacement is detected, or the directory is missing at the moment of the exchange.
    says_so = re.search(r"symbolic link|New/1\.0(/\S*)?: No such file or directory", done.stderr) is not None
    assert (done.returncode != 0, says_so, "Traceback" in done.stderr) == (True, True, False), done.stderr


CONNECT = """
import socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
print(connection.recv(4096).decode())
"""


def test_another_user_is_refused_even_with_access_to_the_socket(users: Users) -> None:
    top = users.make_directory("jobs", owner="alice", mode=0o755)
    with started(top) as helper:
        place = helper.directory / "socket"
        closed = users.run("mallory", "/usr/bin/python3", "-c", CONNECT, place, check=False)
        assert "PermissionError" in closed.stderr
        place.chmod(0o777)
        helper.directory.chmod(0o755)
        opened = users.run("mallory", "/usr/bin/python3", "-c", CONNECT, place)
        assert opened.stdout.strip() == '{"refused": "the request is from another user"}'
        assert helper.request() == {"exit": 0}
