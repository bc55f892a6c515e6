"""Fork the ranks of a node from one Python process that has already imported their modules.

Roles in one file, with the standard library of Python 3.8 or newer; `host` needs 3.6, and no container:

wait DIRECTORY PLACE SIZE PRELOAD OWN -- COMMAND
    The process of a task. It describes itself to the parent (environment, cores, limits, descriptors), forwards signals,
    and ends as its rank ends. If the rank cannot be forked, it becomes COMMAND instead. PLACE 0 starts the parent.
host DIRECTORY PLACE SIZE -- COMMAND
    The same outside the container that COMMAND starts. PLACE 0 starts it; in it, `lead` becomes the parent.
describe DIRECTORY TOKEN -- COMMAND
    In that container: describe what the run script has made of the environment of one task on the host.
sitecustomize
    The parent: COMMAND itself, which imports this file before its program. It imports the modules, checks that a fork is
    safe, and forks one rank per task. A rank returns from here, so the interpreter runs the program as usual.
"""
import array
import errno
import gc
import marshal
import os
import resource
import select
import signal
import socket
import stat
import struct
import sys
import time

ROLE = "HPCMOD_FORK_RANKS"  # variable that makes sitecustomize the parent
PATIENCE = 60.0  # seconds to wait for the parent's socket, and for missing tasks
GRACE = 10.0  # seconds that other ranks may continue after rank 0 of the node has failed, because they use its container
DESCRIPTORS = 200  # most descriptors that a task passes on; Linux allows 253
DEVICES = ("/dev/kfd", "/dev/nvidia", "/dev/dri/", "/dev/accel/")
OPTIONS = "bBdOPqRsuvx"  # options of Python without a value that need nothing before sitecustomize
AT_LOAD = ("OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "LD_", "PYTHON", "MALLOC_", "GLIBC_", "TORCH_LOGS", "COVERAGE_")
"""Variables that libraries read when they are loaded: ranks must agree on them."""
SAFE = frozenset(
    "torch torchvision torchaudio numpy scipy pandas sklearn matplotlib PIL transformers tokenizers safetensors datasets accelerate"
    " einops timm huggingface_hub tqdm yaml packaging requests networkx sympy h5py pyarrow xarray numba".split()
)
"""Packages that are known to fork safely once imported; each fork is checked nevertheless."""
MPI = frozenset("mpi4py horovod petsc4py mpi4jax adios2".split())
FORWARDED = sorted(
    set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL}
)


def say(text):
    os.write(2, ("conda-python-distributed: " + text + "\n").encode(errors="replace"))


# Messages: length, marshalled value, and descriptors with the first bytes.


def send(connection, value, descriptors=()):
    body = marshal.dumps(value, 2)
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    connection.sendmsg([struct.pack("!I", len(body))], rights)
    connection.sendall(body)


def receive(connection):
    """Return a value and descriptors; None and none at the end of the connection."""
    descriptors = array.array("i")
    try:
        head, extra, _, _ = connection.recvmsg(4, socket.CMSG_SPACE(4 * DESCRIPTORS))
        for _, _, data in extra:
            descriptors.frombytes(data[: len(data) // 4 * 4])
        head += receive_bytes(connection, 4 - len(head))
        return marshal.loads(receive_bytes(connection, struct.unpack("!I", head)[0])), list(descriptors)
    except (OSError, EOFError):
        for descriptor in descriptors:
            os.close(descriptor)
        return None, []


def receive_bytes(connection, count):
    parts = []
    while count:
        parts.append(connection.recv(min(count, 1 << 20)))
        if not parts[-1]:
            raise EOFError
        count -= len(parts[-1])
    return b"".join(parts)


def is_peer_me(connection):
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return struct.unpack("3i", credentials)[1] == os.getuid()


def open_place(directory):
    """Open a private directory. -> it, the address of the socket in it, short enough for any directory, and a new socket"""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    facts = os.fstat(descriptor)
    if facts.st_uid != os.getuid() or stat.S_IMODE(facts.st_mode) & 0o077:
        raise PermissionError(errno.EPERM, "not a private directory", directory)
    return descriptor, "/proc/self/fd/%d/ranks" % descriptor, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)


# The process of a task.


def wait(directory, place, size, preload, own, _, *command):
    if find_program(command) is None:
        become(command)
    wait_for_rank(directory, int(place), command, lambda: start_parent(directory, size, preload, own, command))


def wait_on_host(directory, place, _size, _, *command):
    wait_for_rank(directory, int(place), command, lambda: start_container(directory, command), is_on_host=True)


def wait_for_rank(directory, place, command, start, is_on_host=False):
    """Describe this task to the parent, which `start` starts for local rank 0, and end as the rank does."""
    try:
        facts, descriptors = describe_me(place, command)
        if facts["terminal"]:
            raise OSError("standard input or output is a terminal")
        if is_on_host:
            facts["host"] = os.getpid()
        started = start() if place == 0 else None
        connection = connect(directory, started)
        reading, _ = catch(number for number in FORWARDED if not is_ignored(number))
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        send(connection, facts, descriptors)
    except OSError as err:
        reset_signals()
        if place == 0 or not is_on_host:
            say("plain start: %s" % err)
        become(command)
    follow(connection, None if is_on_host else started, command, reading)


def start_container(directory, command):
    for name in ("ranks", "refused"):
        if os.path.lexists(os.path.join(directory, name)):
            os.unlink(os.path.join(directory, name))
    process = os.fork()
    if process:
        return process
    os.environ.update(HPCMOD_SPAWN="1", HPCMOD_FORK_HOST=directory, HPCMOD_FORK_PID=str(os.getppid()))
    become(command)


def describe(directory, token, _, *command):
    """Describe this task to the parent, and exit: the task itself waits on the host."""
    facts, descriptors = describe_me(-1, command)
    facts["token"] = token
    connection = connect(directory, None)
    send(connection, facts, descriptors)
    receive(connection)
    os._exit(0)  # at once: the parent waits for the end before it forks the rank


def find_program(command):
    """Return the kind of program (file, -m, -c) and its name; None for commands that cannot be forked."""
    words = iter(command[1:])
    for word in words:
        if word in ("-m", "-c"):
            return word, next(words, "")
        if word in ("-W", "-X"):
            next(words, "")
        elif word.startswith(("-W", "-X")) or word.startswith("-") and word[1:] and not word[1:].strip(OPTIONS):
            continue
        else:
            return None if word.startswith("-") else ("file", word)
    return None


def describe_me(place, command):
    """Return what a rank inherits from its task, and its descriptors; descriptors 0, 1 and 2 come first."""
    umask = os.umask(0)
    os.umask(umask)
    kinds = sorted({getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")})
    numbers = [0, 1, 2, *sorted(number for number in open_descriptors() if number > 2)]
    facts = {
        "place": place,
        "command": list(command),
        "environment": read_environment("/proc/self/environ"),
        "cwd": os.getcwd(),
        "numbers": numbers[:DESCRIPTORS],
        "umask": umask,
        "limits": [[kind, *resource.getrlimit(kind)] for kind in kinds],
        "cores": sorted(os.sched_getaffinity(0)),
        "priority": os.getpriority(os.PRIO_PROCESS, 0),
        "ignored": [int(number) for number in FORWARDED if is_ignored(number)],
        "blocked": [int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, ())],
        "terminal": any(os.isatty(number) for number in (0, 1, 2)),
        "devices": open_devices(),
        "memory": memory_policy(),
    }
    return facts, facts["numbers"]


def read_environment(path):
    with open(path, "rb") as file:
        return dict(pair.split(b"=", 1) for pair in file.read().split(b"\0") if b"=" in pair)


def open_descriptors():
    """Return the numbers of the descriptors that a program would inherit."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.get_inheritable(int(name)):
                found.append(int(name))
        except OSError:
            continue
    return found


def is_ignored(number):
    """Return whether the task ignores a signal; Python itself ignores two."""
    return number not in (signal.SIGPIPE, signal.SIGXFSZ) and signal.getsignal(number) == signal.SIG_IGN


def open_devices():
    """Return the GPUs of this machine that this task may open: with cgroups, each task may have its own."""
    found = []
    for directory, start in (("/dev", "nvidia"), ("/dev/dri", "renderD")):
        names = os.listdir(directory) if os.path.isdir(directory) else ()
        for name in sorted(name for name in names if name.startswith(start) and name[len(start) :].isdigit()):
            try:
                os.close(os.open(directory + "/" + name, os.O_RDWR | os.O_CLOEXEC))
                found.append(name)
            except OSError:
                continue
    return found


def memory_policy():
    try:
        with open("/proc/self/numa_maps") as file:
            return file.readline().split()[1]
    except (OSError, IndexError):
        return ""


def start_parent(directory, size, preload, own, command):
    """Start the parent with a socket to listen on; return its process ID."""
    listener, task = listen(directory), os.getpid()
    parent = os.fork()
    if parent:
        listener.close()
        return parent
    become_parent(listener, [task, directory, size, preload, own], command)


def listen(directory):
    """Return a socket that listens in the directory; it replaces that of an earlier run."""
    descriptor, address, listener = open_place(directory)
    try:
        os.unlink("ranks", dir_fd=descriptor)
    except FileNotFoundError:
        pass
    listener.bind(address)
    listener.listen(1024)
    os.close(descriptor)
    return listener


def become_parent(listener, words, command, again=()):
    import json

    listener.set_inheritable(True)
    path = os.environ.get("PYTHONPATH", "")
    os.environ[ROLE] = json.dumps([listener.fileno(), *words, path, again])
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [words[1], path]))
    become(command)


def connect(directory, parent):
    """Connect to the parent. Local rank 0 may start later than others, so wait for its socket."""
    end = time.monotonic() + PATIENCE
    while True:
        if parent is not None and os.waitpid(parent, os.WNOHANG)[0]:
            open(os.path.join(directory, "refused"), "w").close()
        if os.path.exists(os.path.join(directory, "refused")):
            raise OSError("the container has not started the ranks")
        descriptor, address, connection = open_place(directory)
        try:
            connection.connect(address)
            if not is_peer_me(connection):
                raise PermissionError(errno.EPERM, "the socket belongs to another user", directory)
            return connection
        except (FileNotFoundError, ConnectionRefusedError):
            connection.close()
            if time.monotonic() > end:
                raise
            time.sleep(0.02)
        finally:
            os.close(descriptor)


def catch(numbers):
    """Catch signals from now on; return the ends of a pipe with their numbers."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in numbers:
        signal.signal(number, lambda *_: None)
    return reading, writing


def follow(connection, parent, command, reading):
    """Forward signals to the rank until it ends, then end in the same way."""
    while True:
        ready = select.select([connection, reading], [], [])[0]
        if reading in ready:
            for number in os.read(reading, 512):
                try:
                    send(connection, ["signal", number])
                except OSError:
                    break
        if connection in ready:
            answer, _ = receive(connection)
            if answer is None:
                say("the process that forked the ranks of this node has ended: ending this rank with it")
                end_like(signal.SIGKILL)  # as a status: ended by this signal
            if answer[0] == "plain":
                reset_signals()
                if answer[1]:
                    say("plain start: " + answer[1])
                if parent is not None:
                    os.waitpid(parent, 0)
                become(command)
            if answer[0] == "ended":
                stay_for_others(parent, answer[1])  # with signals still caught: they are meant for ranks
                reset_signals()
                end_like(answer[1])


def reset_signals():
    signal.set_wakeup_fd(-1)
    for number in FORWARDED:
        if not is_ignored(number):
            signal.signal(number, signal.SIG_DFL)


def become(command):
    """Replace this process by the program, as the run script would have."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except OSError as err:
        say("cannot run %s: %s" % (command[0], err))
        os._exit(127)


def stay_for_others(parent, status):
    """Other ranks read the image of this task's container: wait for them, but only briefly after a failure."""
    if parent is None:
        return
    end = time.monotonic() + (GRACE if status else float("inf"))
    while os.waitpid(parent, os.WNOHANG) == (0, 0):
        if time.monotonic() > end:
            say("this rank has failed; the other ranks of this node use its container and end with it")
            return
        time.sleep(0.02)


def end_like(status):
    """End with the exit status or by the signal in a status of waitpid."""
    if not os.WIFSIGNALED(status):
        os._exit(os.WEXITSTATUS(status))
    number = os.WTERMSIG(status)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
    os.kill(os.getpid(), number)
    time.sleep(1)
    os._exit(128 + number)


# The parent of the ranks of a node.


class Task:
    """A task that waits for its rank."""

    def __init__(self, connection, facts, descriptors):
        self.connection, self.facts, self.descriptors = connection, facts, descriptors
        self.matched = {}  # number: how many signals to the parent this task has got too

    def answer(self, *message):
        try:
            send(self.connection, list(message))
        except OSError:
            pass  # the task has ended

    def close(self):
        self.connection.close()
        self.close_descriptors()

    def close_descriptors(self):
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors = []


class Parent:
    """Forks ranks, forwards their signals, and reports how they ended."""

    def __init__(self, listener, size, again):
        self.listener, self.size, self.arrived = listener, size, 0
        self.again = again  # entry environment, run script and arguments: how to describe a task on the host
        self.described = {}  # process ID of such a description, which is its token: the task
        self.waiting = []  # tasks that arrived before local rank 0
        self.leader = None  # what local rank 0 sent
        self.first = None  # the facts of the first rank
        self.ranks = {}  # process ID: task
        self.signals = {}  # number: how often this process got it
        self.refusal = ""  # why no rank of this node is forked
        self.reading, self.writing = catch([*FORWARDED, signal.SIGCHLD])

    def serve(self):
        """Return the task of a rank in that rank; end the process in the parent."""
        while self.arrived < self.size or self.ranks or self.described:
            watched = [self.listener, self.reading, *(task.connection for task in self.ranks.values())]
            ready = select.select(watched, [], [], None if self.ranks else PATIENCE)[0]
            if not ready:
                break
            if self.reading in ready:
                self.note_signals()
            for process, task in list(self.ranks.items()):
                if task.connection in ready:
                    self.read_task(process, task)
            task = self.accept() if self.listener in ready else None
            rank = task and (self.start_described(task) if "token" in task.facts else self.begin(task))
            if rank:
                return rank
        os._exit(0)

    def begin_descriptions(self):
        """Describe the tasks on the host that have already arrived, while the imports continue here."""
        arrived = []
        while self.again and select.select([self.listener], [], [], 0)[0]:
            arrived.append(self.accept())
        self.begin(*filter(None, arrived))

    def note_signals(self):
        for number in os.read(self.reading, 512):
            self.signals[number] = self.signals.get(number, 0) + 1
        for process, task in [*self.ranks.items(), *self.described.items()]:
            found, status = os.waitpid(process, os.WNOHANG)
            if found and self.ranks.pop(process, None):
                task.answer("ended", status)
            elif found:
                del self.described[process]
                task.answer("plain", "the run script ended with status %d" % (status >> 8))

    def read_task(self, process, task):
        """Forward a signal; if a task has ended, end its rank."""
        message, _ = receive(task.connection)
        if message is not None and self.is_broadcast(task, message[1]):
            return
        if process not in self.ranks:  # it has ended meanwhile
            return
        os.kill(process, message[1] if message else signal.SIGKILL)
        if message is None:
            os.waitpid(process, 0)
            del self.ranks[process]
            task.close()

    def is_broadcast(self, task, number):
        """Return whether the scheduler has sent this signal to all processes, and so to the rank as well."""
        for _ in range(2):
            if self.signals.get(number, 0) > task.matched.get(number, 0):
                task.matched[number] = task.matched.get(number, 0) + 1
                return True
            if select.select([self.reading], [], [], 0.05)[0]:
                self.note_signals()
        return False

    def accept(self):
        """Return the task that connects; None if it is not ours or has ended."""
        connection = self.listener.accept()[0]
        connection.settimeout(PATIENCE)
        facts, descriptors = receive(connection) if is_peer_me(connection) else (None, [])
        if facts is None:
            connection.close()
            return None
        return Task(connection, facts, descriptors)

    def begin(self, *tasks):
        """Fork or describe the ranks of tasks, and of those that waited. -> a task, in its new rank"""
        for task in tasks:
            self.arrived += 1
            self.waiting.append(task)
            if task.facts["place"] == 0:
                self.waiting.insert(0, self.waiting.pop())
                self.decide(task.facts)
        while self.leader and self.waiting:
            task = self.waiting.pop(0)
            rank = self.describe(task) if "host" in task.facts else self.start(task)
            if rank:
                return rank
        return None

    def decide(self, facts):
        """Decide for all tasks by the facts of local rank 0."""
        self.leader = facts
        if "host" not in facts:
            self.refusal = self.refusal or find_difference(facts, facts)
            if self.refusal and os.fork():  # local rank 0 waits for its child to end: another process tells the tasks why
                os._exit(0)

    def refuses(self, task, first, on_host=False):
        """Let a task start without us if it must; only local rank 0 says why that is so for all."""
        reason = self.refusal or find_difference(task.facts, first, on_host)
        if reason:
            task.answer("plain", "" if self.refusal and task.facts["place"] else reason)
            task.close()
        return reason

    def describe(self, task):
        """Run the run script as if this task had started a container; it describes the result."""
        if self.refuses(task, self.leader, on_host=True):
            return
        process = self.fork(task)
        if process == 0:
            self.become_description(task)
        self.described[process] = task

    def become_description(self, task):
        try:
            entry, script, *arguments = self.again
            environment = environment_of(task.facts["environment"], self.leader["environment"], entry)
            environment.update({b"HPCMOD_FORK_TOKEN": b"%d" % os.getpid(), b"HPCMOD_FORK_PID": b"%d" % task.facts["host"]})
            take_over(task)
            os.execve(script, [script, *arguments], environment)
        finally:
            os._exit(71)

    def start_described(self, description):
        """Fork the rank of a task on the host. -> its task, in the new rank"""
        process = int(description.facts["token"])
        task = self.described.pop(process, None)
        description.answer("described")
        description.connection.close()
        if task is None:
            description.close_descriptors()
            return None
        os.waitpid(process, 0)
        task.facts = dict(description.facts, place=task.facts["place"])
        task.descriptors = description.descriptors
        return self.start(task)

    def start(self, task):
        """Fork the rank of a task. -> the task, in the new rank"""
        self.first = self.first or task.facts
        if self.refuses(task, self.first):
            return None
        process = self.fork(task)
        if process == 0:
            return task
        task.matched = dict(self.signals)  # signals before the fork did not reach the rank
        self.ranks[process] = task
        return None

    def fork(self, task):
        """Fork for a task with all signals blocked, and with its cores. -> 0, in the new process"""
        own = os.sched_getaffinity(0)
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        while select.select([self.reading], [], [], 0)[0]:
            self.note_signals()
        os.sched_setaffinity(0, task.facts["cores"])
        parent, process = os.getpid(), os.fork()
        if process == 0:
            die_with(parent)
            self.leave(task)
            return 0
        os.sched_setaffinity(0, own)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        task.close_descriptors()
        return process

    def leave(self, task):
        """In a rank: close what belongs to the parent."""
        signal.set_wakeup_fd(-1)
        self.listener.close()
        task.connection.close()
        for other in (*self.ranks.values(), *self.described.values(), *self.waiting):
            other.close()
        os.close(self.reading)
        os.close(self.writing)


def find_difference(facts, first, on_host=False):
    """Return why a task cannot share the process of local rank 0, or on the host its container; empty if it can."""
    mine, theirs = facts["environment"], first["environment"]
    names = sorted(name.decode(errors="replace") for name in {*mine, *theirs} if mine.get(name) != theirs.get(name))
    names = [name for name in names if (sets_container(name) if on_host else name.startswith(AT_LOAD))]
    different = "ranks of this node have different "
    reasons = (
        (names, different + "values of " + ", ".join(names)),
        (facts["command"] != first["command"], different + "command lines"),
        (facts["devices"] != first["devices"], "the scheduler gives each task its own GPUs, which the others cannot open"),
        (facts["memory"] != first["memory"], different + "NUMA memory policies"),
        (len(facts["cores"]) != len(first["cores"]), different + "numbers of cores"),
        (facts["priority"] < first["priority"], different + "priorities"),
        (hard_limits(facts) != hard_limits(first), different + "limits (ulimit -H)"),
        (on_host and facts["cwd"] != first["cwd"], different + "directories"),
        (not os.access(facts["cwd"], os.X_OK), "the process of local rank 0 cannot enter " + facts["cwd"]),
        (not can_use(facts["cores"]), "the scheduler gives each task its own cores, which the others cannot use"),
    )
    return next((reason for applies, reason in reasons if applies), "")


def hard_limits(facts):
    return [hard for _, _, hard in facts["limits"]]


def sets_container(name):
    return name.startswith(("APPTAINER_", "SINGULARITY_")) or name[name.find("_") :] in ("_PATH", "_PREPEND_PATH", "_APPEND_PATH")


def environment_of(task, first, entry):
    """Return the environment of a task's container: that of local rank 0's container, with the differences on the host.

    A variable that the container has changed or hidden for local rank 0 is left as it is.
    """
    made = dict(entry)
    for name in {name for name in {*task, *first} if task.get(name) != first.get(name)}:
        prefix, _, inner = name.partition(b"ENV_")
        if prefix in (b"APPTAINER", b"SINGULARITY") and inner:
            target = inner
        elif entry.get(name) == first.get(name):
            target = name
        else:
            continue
        made.pop(target, None)
        if name in task:
            made[target] = task[name]
    return made


def can_use(cores):
    here = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, cores)
        os.sched_setaffinity(0, here)
    except OSError:
        return False
    return True


def die_with(parent):
    """End when the parent process ends, or now if it has ended already."""
    import ctypes

    if ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL, 0, 0, 0) or os.getppid() != parent:
        os._exit(137)


def become_rank(task, added):
    """Take over the properties and the environment of a task."""
    take_over(task)
    for name in list(os.environb):
        if name not in added:
            del os.environb[name]
    os.environb.update(task.facts["environment"])
    seed_again()


def take_over(task):
    """Take over descriptors, directory, limits and signals of a task."""
    facts = task.facts
    os.setsid()
    put_descriptors(facts["numbers"], task.descriptors)
    os.chdir(facts["cwd"])
    os.umask(facts["umask"])
    os.setpriority(os.PRIO_PROCESS, 0, facts["priority"])
    for kind, soft, hard in facts["limits"]:
        resource.setrlimit(kind, (soft, hard))
    for number in FORWARDED:
        signal.signal(number, signal.SIG_IGN if number in facts["ignored"] else signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    if signal.SIGINT not in facts["ignored"]:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, facts["blocked"])


def put_descriptors(numbers, descriptors):
    """Give received descriptors their numbers in the task, after moving them above all of these numbers."""
    import fcntl

    high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, max(numbers) + 1) for descriptor in descriptors]
    for descriptor in descriptors:
        os.close(descriptor)
    for number, descriptor in zip(numbers, high):
        os.dup2(descriptor, number)
        os.close(descriptor)


def seed_again():
    """Reseed what was seeded on import; `random` does so itself after a fork."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and "numpy.random" in sys.modules:
        numpy.random.seed()
    processes = sys.modules.get("multiprocessing.process")
    if processes is not None:
        processes.current_process().authkey = os.urandom(32)


def be_parent():
    """Import, then fork; returns only in a rank."""
    added = set(os.environb) - set(read_environment("/proc/self/environ"))  # Python itself may add LC_CTYPE
    import json

    number, task, directory, size, preload, own, path, again = json.loads(os.environ.pop(ROLE))
    if task:
        die_with(task)
    os.environ["PYTHONPATH"] = path
    if not path:
        del os.environ["PYTHONPATH"]
    sys.path.remove(directory)
    parent = Parent(socket.socket(fileno=number), int(size), again and [read_environment(directory + "/environment"), *again])
    import_hidden_sitecustomize()
    with open("/proc/self/cmdline", "rb") as file:
        command = [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]
    modules = preload.split(",") if preload else find_imports(command)
    parent.begin_descriptions()
    known = {name for name in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + name)}  # not that of listdir
    thresholds = gc.get_threshold()
    gc.set_threshold(0)  # imports leave little garbage, and collecting it takes a tenth of their time
    parent.refusal = import_safely(modules, own.split(), known, command)
    leave_output()
    gc.freeze()
    if gc.get_threshold()[0] == 0:  # else a module has set its own
        gc.set_threshold(*thresholds)
    become_rank(parent.serve(), added)


def import_hidden_sitecustomize():
    """Import the sitecustomize of the image, or leave an empty module in its place."""
    own = sys.modules.pop("sitecustomize")
    try:
        import sitecustomize  # noqa: F401
    except ImportError as err:
        if err.name != "sitecustomize":
            raise
        sys.modules["sitecustomize"] = type(own)("sitecustomize")


def leave_output():
    """Let go of the descriptors of local rank 0, after what the imports have printed."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    os.close(nothing)


def find_imports(command):
    """Return what the program and its own modules import and is known to fork safely."""
    kind, name = find_program(command)
    home = os.getcwd() if kind != "file" else os.path.dirname(os.path.realpath(name))
    path = os.path.join(home, *name.split(".")) if kind == "-m" else name
    found, done, sources = [], set(), [name if kind == "-c" else read_source(path)]
    while sources:
        for module in find_modules(sources.pop(0)):
            top, local = module.partition(".")[0], os.path.join(home, *module.split("."))
            if os.path.exists(os.path.join(home, top)) or os.path.exists(os.path.join(home, top + ".py")):
                if local not in done and len(done) < 100:
                    done.add(local)
                    sources.append(read_source(local))
            elif (top in SAFE or top in MPI) and module not in found:
                found.append(module)
    return found


def find_modules(source):
    """Return the modules that a source imports; none if it is not valid."""
    import ast

    try:
        lines = [line for line in ast.walk(ast.parse(source)) if isinstance(line, (ast.Import, ast.ImportFrom))]
    except (SyntaxError, ValueError):
        return []
    names = [line.names if isinstance(line, ast.Import) else [ast.alias(line.module or "")] for line in lines]
    return [alias.name for aliases in names for alias in aliases]


def read_source(path):
    for place in (path, path + ".py", os.path.join(path, "__main__.py"), os.path.join(path, "__init__.py")):
        if os.path.isfile(place) and os.path.getsize(place) < 1 << 22:
            with open(place, "rb") as file:
                return file.read()
    return b""


def import_safely(modules, own, known, command):
    """Import one module after the other; return why the process must not be forked, or nothing."""
    import importlib

    if not modules:
        return "nothing to import before the fork was found in %s; name modules with --preload" % find_program(command)[1]
    mpi = [module for module in modules if module.partition(".")[0] in MPI]
    if mpi:
        return "%s uses MPI, which needs one process per task" % mpi[0]
    with Reads(own) as reads:
        for module in modules:
            try:
                importlib.import_module(module)
            except BaseException as err:  # the program will raise it again
                return "importing %s fails: %s" % (module, err)
            obstacle = find_obstacle(known) or (reads.found and "it reads %s" % reads.found)
            if obstacle:
                return "importing %s does not allow a fork: %s; leave it out with --preload" % (module, obstacle)
    return ""


class Reads:
    """Watch for reads of variables that differ between ranks."""

    def __init__(self, names):
        self.names, self.found = frozenset(names), ""

    def __enter__(self):
        kind = type(os.environ)
        self.original = original = kind.__getitem__

        def read(environment, name):
            if name in self.names and sys._getframe(1).f_code.co_name not in ("copy", "__iter__"):
                self.found = name
            return original(environment, name)

        kind.__getitem__ = read
        return self

    def __exit__(self, *_):
        type(os.environ).__getitem__ = self.original


def find_obstacle(known):
    """Return what makes a fork unsafe now: threads, GPUs, sockets, MPI; empty if nothing does."""
    if count_threads() > 1:
        fork_nothing()  # libraries such as OpenBLAS end their threads before a fork and start them again when needed
    if count_threads() > 1:
        return "it starts %d threads" % (count_threads() - 1)
    for name in set(os.listdir("/proc/self/fd")) - known:
        try:
            target = os.readlink("/proc/self/fd/" + name)
        except OSError:
            continue
        if target.startswith((*DEVICES, "socket:", "anon_inode:[eventpoll]", "anon_inode:[io_uring]")):
            return "it opens " + target
    with open("/proc/self/maps") as file:
        if any("/libmpi" in line for line in file):
            return "it loads MPI"
    return ""


def count_threads():
    return len(os.listdir("/proc/self/task"))


def fork_nothing():
    """Fork a process that ends at once, and kill it if it does not."""
    process = os.fork()
    if process == 0:
        os._exit(0)
    for _ in range(200):
        if os.waitpid(process, os.WNOHANG)[0]:
            return
        time.sleep(0.01)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)


def lead(directory, size, preload, own, count, *words):
    """Become the parent in the one container of a node; words: the run script with its arguments, the command."""
    script, command = words[: int(count)], words[int(count) :]
    become_parent(listen(directory), [0, directory, size, preload, own], command, script)


if __name__ == "__main__":
    {"wait": wait, "host": wait_on_host, "describe": describe, "lead": lead}[sys.argv[1]](*sys.argv[2:])
elif __name__ == "sitecustomize" and ROLE in os.environ:
    try:
        be_parent()
    except BaseException as err:
        say("the ranks of this node cannot be forked: %r" % (err,))
        os._exit(70)
