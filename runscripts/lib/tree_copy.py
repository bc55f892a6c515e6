"""Receive a file from another node of the job, verify it, and pass it on to further nodes meanwhile.

Each node runs this program, with the standard library of Python 3.6 or newer:

    tree-copy DESTINATION NODE SUFFIX

Standard input: a line with the secret of the job; a line `SIZE NODE:PORT,... FILE`; then nothing until the end of the job's
copy, when it is closed. Standard output: `port PORT`; any number of `note TEXT`; `good SHA256` or `bad TEXT`.

The first node reads FILE, and node i asks node (i - 1) // 2 for its blocks. If that node fails, it asks the next one on the
way to the first node, and finally reads FILE itself. The node that reads a block gives it a tag, a keyed digest of its number
and bytes, which every node verifies before it writes the block.
"""
import hashlib
import hmac
import os
import socket
import struct
import sys
import threading

BLOCK = 4 << 20  # bytes
CHILDREN = 2  # nodes that ask the same node
BEAT = 5.0  # seconds after which a node that has nothing to send says so
PATIENCE = 30.0  # seconds without any byte after which a node counts as dead
TRIES = 2  # failures in a row, without a new block, after which another node is asked
STRANGERS = 64  # connections that may wait for their proof at the same time
HEAD = struct.Struct("!Q32s")  # number of a block and its tag, before its bytes
NOTHING = (1 << 64) - 1  # number in place of a block that is not there yet


class Wrong(Exception):
    """A peer sent something invalid."""


def tell(text):
    os.write(1, (text.replace("\n", " ") + "\n").encode(errors="replace"))


def receive(connection, view):
    """Fill a buffer from a connection."""
    while view:
        count = connection.recv_into(view)
        if not count:
            raise Wrong("the connection ended")
        view = view[count:]


def receive_bytes(connection, count):
    buffer = bytearray(count)
    receive(connection, memoryview(buffer))
    return bytes(buffer)


class Copy:
    """The file on this node: blocks up to `self.count` are there and verified."""

    def __init__(self, path, secret):
        self.path, self.secret = path, secret
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        self.size = self.total = None  # bytes and blocks; not known at first
        self.count, self.tags, self.failed = 0, [], False
        self.changed = threading.Condition()

    def length(self, number):
        return min(BLOCK, self.size - number * BLOCK)

    def tag(self, number, data):
        digest = hashlib.blake2b(struct.pack("!Q", number), key=self.secret, digest_size=32)
        digest.update(data)
        return digest.digest()

    def add(self, data, tag):
        """Write the next block, and wake those who wait for it."""
        at = self.count * BLOCK
        while data:
            written = os.pwrite(self.descriptor, data, at)
            data, at = data[written:], at + written
        with self.changed:
            self.tags.append(tag)
            self.count += 1
            self.changed.notify_all()

    def fail(self):
        with self.changed:
            self.failed = True
            self.changed.notify_all()

    def wait(self, number, seconds):
        """Return whether a block is there; wait for it at most some seconds."""
        with self.changed:
            self.changed.wait_for(lambda: self.failed or self.count > number, seconds)
            if self.failed:
                raise Wrong("this node has failed")
            return self.count > number

    def prove(self, role, *parts):
        return hmac.new(self.secret, b"hpcmod tree " + role + b"".join(parts), hashlib.sha256).digest()


# A node that passes the file on.


def serve(copy, listening):
    free = threading.Semaphore(STRANGERS)
    while True:
        free.acquire()
        try:
            connection, _ = listening.accept()
            connection.settimeout(PATIENCE)
        except OSError:  # the peer is gone, or there are too many open files
            free.release()
            continue
        threading.Thread(target=answer, args=(copy, connection, free), daemon=True).start()


def answer(copy, connection, free):
    with connection:
        try:
            try:
                number = greet(copy, connection)
            finally:
                free.release()
            send_blocks(copy, connection, number)
        except (OSError, Wrong):  # that node asks another one
            pass


def greet(copy, connection):
    """Verify that the peer knows the secret, and prove it in turn; return the number of the first block that it needs."""
    mine = os.urandom(32)
    connection.sendall(mine)
    theirs, first, proof = struct.unpack("!32s8s32s", receive_bytes(connection, 72))
    if not hmac.compare_digest(proof, copy.prove(b"asks", mine, theirs, first)):
        raise Wrong("a peer without the secret")
    connection.sendall(copy.prove(b"answers", theirs, mine))
    return struct.unpack("!Q", first)[0]


def send_blocks(copy, connection, number):
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with open(copy.path, "rb") as source:
        while copy.total is None or number < copy.total:
            if not copy.wait(number, BEAT):
                connection.sendall(HEAD.pack(NOTHING, b""))
                continue
            connection.sendall(HEAD.pack(number, copy.tags[number]))
            connection.sendfile(source, number * BLOCK, copy.length(number))
            number += 1


# A node that receives the file.


def pull(copy, host, port, buffer):
    """Ask a node for all blocks that are missing here."""
    with socket.create_connection((host, port), PATIENCE) as connection:
        connection.settimeout(PATIENCE)
        theirs, mine, first = receive_bytes(connection, 32), os.urandom(32), struct.pack("!Q", copy.count)
        connection.sendall(mine + first + copy.prove(b"asks", theirs, mine, first))
        if not hmac.compare_digest(receive_bytes(connection, 32), copy.prove(b"answers", mine, theirs)):
            raise Wrong("it does not know the secret of the job")
        while copy.count < copy.total:
            number, tag = HEAD.unpack(receive_bytes(connection, HEAD.size))
            if number == NOTHING:
                continue
            if number != copy.count:
                raise Wrong("it sent block %d instead of %d" % (number, copy.count))
            view = memoryview(buffer)[: copy.length(number)]
            receive(connection, view)
            if not hmac.compare_digest(copy.tag(number, view), tag):
                raise Wrong("block %d is damaged" % number)
            copy.add(view, tag)


def read_file(copy, file, buffer):
    """Read all blocks that are missing here from the shared file."""
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        before = os.fstat(descriptor)
        while copy.count < copy.total:
            view = memoryview(buffer)[: copy.length(copy.count)]
            read_block(descriptor, view, copy.count * BLOCK)
            copy.add(view, copy.tag(copy.count, view))
        after = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    if after.st_size != copy.size or (before.st_mtime, before.st_ctime) != (after.st_mtime, after.st_ctime):
        raise Wrong("the file has changed")


def read_block(descriptor, view, at):
    while view:
        data = os.pread(descriptor, len(view), at)
        if not data:
            raise Wrong("the file is shorter than expected")
        view[: len(data)] = data
        view, at = view[len(data) :], at + len(data)


def fill(copy, nodes, place, suffix, file):
    """Get all blocks, from whichever source still works."""
    buffer, first = bytearray(BLOCK), place == 0
    while place > 0:
        place = (place - 1) // CHILDREN
        host, _, port = nodes[place].rpartition(":")
        failures = 0
        while failures < TRIES:
            before = copy.count
            try:
                pull(copy, find_address(host, suffix), int(port), buffer)
                return
            except (OSError, Wrong) as err:
                tell("note cannot continue at block %d from %s: %s" % (copy.count, host, err))
                failures = failures + 1 if copy.count == before else 1
    if not first:
        tell("note reading the file itself from block %d on" % copy.count)
    read_file(copy, file, buffer)


def find_address(host, suffix):
    """Return the name of a node in the fast network, if it has one."""
    first, dot, rest = host.partition(".")
    fast = first + suffix + ("" if "." in suffix else dot + rest)
    try:
        socket.getaddrinfo(fast, None)
    except OSError:
        return host
    return fast


def add_up(copy, result, first):
    """Append the sha256 of the destination, whose blocks are read back as they arrive, or the error.

    The first node compares them with what it has read of the file; the sums of the others are compared with its own.
    """
    digest, view = hashlib.sha256(), memoryview(bytearray(BLOCK))
    try:
        for number in range(copy.total):
            while not copy.wait(number, BEAT):
                pass
            data = view[: copy.length(number)]
            read_block(copy.descriptor, data, number * BLOCK)
            if first and copy.tag(number, data) != copy.tags[number]:
                raise Wrong("block %d of the copy is damaged" % number)
            digest.update(data)
        result.append(digest.hexdigest())
    except (OSError, Wrong) as err:
        result.append(err)


def end_with_input():
    while os.read(0, 1 << 16):
        pass
    os._exit(0)


def read_line():
    return sys.stdin.buffer.readline().decode(errors="surrogateescape").rstrip("\n")


def main(destination, node, suffix):
    copy = Copy(destination, bytes.fromhex(read_line()))
    listening = socket.socket()
    listening.bind(("", 0))
    listening.listen(128)
    port = listening.getsockname()[1]
    threading.Thread(target=serve, args=(copy, listening), daemon=True).start()
    tell("port %d" % port)
    plan = read_line().split(" ", 2)
    if len(plan) < 3:
        return
    nodes, file = plan[1].split(","), plan[2]
    with copy.changed:
        copy.size, copy.total = int(plan[0]), -(-int(plan[0]) // BLOCK)
    threading.Thread(target=end_with_input, daemon=True).start()
    result, own = [], "%s:%d" % (node, port)
    adding = threading.Thread(target=add_up, args=(copy, result, nodes[0] == own), daemon=True)
    adding.start()
    try:
        fill(copy, nodes, nodes.index(own), suffix, file)
        adding.join()
        if isinstance(result[0], Exception):
            raise result[0]
        tell("good " + result[0])
    except (OSError, Wrong, ValueError) as err:
        copy.fail()
        tell("bad %s" % err)
    threading.Event().wait()  # others may still ask; the end of standard input ends this process


main(*sys.argv[1:])
