"""The program of `stage-image`: nodes are local processes, and proxies simulate a faulty network."""

from __future__ import annotations

import hashlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.stack import CHECKOUT

pytestmark = pytest.mark.slow

BLOCK = 4096
PROGRAM = (CHECKOUT / "runscripts" / "lib/tree_copy.py").read_text().replace("BLOCK = 4 << 20", f"BLOCK = {BLOCK}")
HERE = "127.0.0.1"


class Node:
    """One process of the tree."""

    def __init__(self, place: Path, secret: str) -> None:
        self.place = place
        argv = [sys.executable, "-I", "-S", "-c", PROGRAM, str(place), HERE, ""]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.notes: list[str] = []
        self.write(secret)
        self.port = int(self.read().removeprefix("port "))

    def write(self, line: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def read(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().rstrip("\n")

    def answer(self) -> str:
        """Return the reply of a node at the end of its copy, and keep its notes."""
        while (line := self.read()).startswith("note "):
            self.notes.append(line)
        return line


@dataclass
class Tree:
    """Nodes that copy a file."""

    top: Path
    secret: str = field(default_factory=lambda: secrets.token_hex(32))
    nodes: list[Node] = field(default_factory=list)
    sockets: list[socket.socket] = field(default_factory=list)
    threads: list[threading.Thread] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.data = os.urandom(20 * BLOCK + 5)
        self.file = self.top / "shared image.sif"
        self.file.write_bytes(self.data)

    def start_thread(self, run: Callable[..., None], *words: object) -> None:
        self.threads.append(threading.Thread(target=run, args=words, daemon=True))
        self.threads[-1].start()

    def end(self) -> None:
        for node in self.nodes:
            node.process.kill()
            with node.process:  # closes the pipes
                pass
        for each in self.sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join()
        for each in self.sockets:
            each.close()

    def start(self, count: int) -> None:
        self.nodes = [Node(self.top / f"copy-{number}", self.secret) for number in range(count)]

    def copy(self, number: int, *, file: str = "/nowhere", by_way_of: dict[int, int] | None = None) -> None:
        """Start a node's copy; it can read the shared file only with `file`. `by_way_of`: ports of proxies by node."""
        ports = [(by_way_of or {}).get(place, node.port) for place, node in enumerate(self.nodes)]
        nodes = ",".join(f"{HERE}:{port}" for port in ports)
        self.nodes[number].write(f"{len(self.data)} {nodes} {file}")

    def check(self, *numbers: int) -> None:
        """Check that these nodes have the file."""
        wanted = f"good {hashlib.sha256(self.data).hexdigest()}"
        assert [self.nodes[number].answer() for number in numbers] == [wanted] * len(numbers)
        assert all(self.nodes[number].place.read_bytes() == self.data for number in numbers)


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Tree]:
    made = Tree(tmp_path)
    yield made
    made.end()


def proxy(tree: Tree, parent: int, change: Callable[[int, bytes], bytes]) -> int:
    """Return the port of a proxy to a node; `change` gets the count of bytes so far and the next bytes from it."""
    listening = socket.create_server((HERE, 0))
    tree.sockets.append(listening)

    def forward(source: socket.socket, to: socket.socket, edit: Callable[[int, bytes], bytes]) -> None:
        count = 0
        try:
            while data := source.recv(1000):
                to.sendall(edit(count, data))
                count += len(data)
        except OSError:
            pass
        for each in (source, to):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def run() -> None:
        while True:
            try:
                child, _ = listening.accept()
            except OSError:  # closed at the end of the test
                return
            tree.sockets.append(child)
            try:
                node = socket.create_connection((HERE, tree.nodes[parent].port))
            except OSError:
                child.close()
                continue
            tree.sockets.append(node)
            for words in ((child, node, lambda _, data: data), (node, child, change)):
                tree.start_thread(forward, *words)

    tree.start_thread(run)
    return int(listening.getsockname()[1])


def test_only_the_first_node_reads_the_shared_file(tree: Tree) -> None:
    tree.start(4)
    for number in (3, 2, 1):
        tree.copy(number)
    tree.copy(0, file=str(tree.file))
    tree.check(0, 1, 2, 3)
    assert [node.notes for node in tree.nodes] == [[], [], [], []]
    assert {node.place.stat().st_mode & 0o777 for node in tree.nodes} == {0o600}


def test_a_flipped_byte_is_noticed_and_the_block_is_sent_again(tree: Tree) -> None:
    tree.start(2)
    flipped = []

    def flip(count: int, data: bytes) -> bytes:
        if count > 5 * BLOCK and not flipped:
            flipped.append(count)
            return bytes([data[0] ^ 1]) + data[1:]
        return data

    tree.copy(1, by_way_of={0: proxy(tree, 0, flip)})
    tree.copy(0, file=str(tree.file))
    tree.check(0, 1)
    assert flipped
    assert len(tree.nodes[1].notes) == 1 and "damaged" in tree.nodes[1].notes[0]


def test_a_node_that_dies_is_left_out_and_its_blocks_are_not_sent_again(tree: Tree) -> None:
    tree.start(4)
    sent = []

    def die(count: int, data: bytes) -> bytes:
        if count > 5 * BLOCK:
            tree.nodes[1].process.send_signal(signal.SIGKILL)
            raise ConnectionError
        return data

    def count_bytes(count: int, data: bytes) -> bytes:
        sent[:] = [count + len(data)]
        return data

    ports = {1: proxy(tree, 1, die), 0: proxy(tree, 0, count_bytes)}
    for number in (1, 2):
        tree.copy(number)
    tree.copy(0, file=str(tree.file))
    tree.check(0, 1, 2)
    tree.copy(3, by_way_of=ports)
    tree.check(3)
    assert "cannot continue at block" in tree.nodes[3].notes[0]
    assert sent[0] < 17 * BLOCK  # of 20 blocks


def test_without_any_node_the_shared_file_is_read(tree: Tree) -> None:
    tree.start(3)
    for number in (0, 1):
        tree.nodes[number].process.kill()
    tree.copy(2, file=str(tree.file))
    tree.check(2)
    assert len(tree.nodes[2].notes) == 3
    assert tree.nodes[2].notes[-1] == "note reading the file itself from block 0 on"


def test_a_file_that_cannot_be_read_is_reported_by_all(tree: Tree) -> None:
    tree.start(2)
    for number in (1, 0):
        tree.copy(number)
    assert [tree.nodes[number].answer().partition(" ")[0] for number in (0, 1)] == ["bad", "bad"]


def test_a_file_that_is_too_short_is_reported(tree: Tree) -> None:
    tree.file.write_bytes(tree.data[:-1])
    tree.start(1)
    tree.copy(0, file=str(tree.file))
    assert tree.nodes[0].answer() == "bad the file is shorter than expected"


def test_nobody_without_the_secret_receives_a_byte_of_the_file(tree: Tree) -> None:
    tree.start(1)
    tree.copy(0, file=str(tree.file))
    tree.check(0)
    with socket.create_connection((HERE, tree.nodes[0].port)) as stranger:
        assert len(stranger.recv(32, socket.MSG_WAITALL)) == 32
        stranger.sendall(bytes(72))
        assert stranger.recv(1) == b""


def test_a_server_without_the_secret_is_not_believed(tree: Tree) -> None:
    tree.start(2)
    other = Node(tree.top / "of-another-job", secrets.token_hex(32))
    tree.nodes.append(other)
    other.write(f"{len(tree.data)} {HERE}:{other.port} {tree.file}")
    tree.copy(1, by_way_of={0: other.port}, file=str(tree.file))
    tree.check(1)
    assert all("cannot continue at block 0 from" in note for note in tree.nodes[1].notes[:2])
    assert tree.nodes[1].notes[2:] == ["note reading the file itself from block 0 on"]


def test_an_existing_file_or_link_is_not_written_to(tree: Tree) -> None:
    (tree.top / "victim").write_text("mine")
    (tree.top / "copy-0").symlink_to(tree.top / "victim")
    argv = [sys.executable, "-I", "-S", "-c", PROGRAM, str(tree.top / "copy-0"), HERE, ""]
    done = subprocess.run(argv, input=f"{tree.secret}\n", capture_output=True, text=True)
    assert done.returncode == 1 and "File exists" in done.stderr
    assert (tree.top / "victim").read_text() == "mine"


def test_the_process_ends_when_its_input_ends(tree: Tree) -> None:
    tree.start(1)
    tree.copy(0, file=str(tree.file))
    tree.check(0)
    assert tree.nodes[0].process.stdin
    tree.nodes[0].process.stdin.close()
    assert tree.nodes[0].process.wait(30) == 0
