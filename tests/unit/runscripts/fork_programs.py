"""Programs of common kinds, started both normally and by a fork: output and exit status must be equal."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Program:
    """A program, the arguments before and after its file, and its stdin."""

    text: str
    before: tuple[str, ...] = ()
    """Options of Python; `-m` and `-c` replace the file."""
    after: tuple[str, ...] = ()
    stdin: str = ""
    env: tuple[tuple[str, str], ...] = ()


PROGRAMS = {
    "interpreter": Program(
        """
import os, sys
print(sys.argv, sys.path, sys.flags, sys.executable, sys.warnoptions, sys._xoptions, sys.prefix)
print(__name__, __file__, __spec__, __package__, type(__loader__).__name__, __builtins__.__name__, __doc__)
print(sorted(globals()))
print(sys.modules["__main__"].__dict__ is globals(), os.getcwd(), sys.stdout.encoding, sys.stdout.line_buffering)
print(open("/proc/self/cmdline").read().split(chr(0)), os.umask(0))
""",
        before=("-W", "ignore", "-X", "dev", "-u"),
        after=("a", "b c", "--epochs=3", "*"),
    ),
    "environment": Program("""
import os, signal, resource
hidden = ("SHLVL", "_")
print(sorted(item for item in os.environ.items() if item[0] not in hidden))
os.system("env | grep -v ^SHLVL= | grep -v ^_= | sort")
print(os.sched_getaffinity(0), os.getpriority(os.PRIO_PROCESS, 0), os.umask(0), signal.pthread_sigmask(0, ()))
print([signal.getsignal(number) for number in (1, 2, 3, 10, 12, 13, 15, 17)], resource.getrlimit(resource.RLIMIT_CORE))
print([line for line in open("/proc/self/status") if line.startswith(("SigIgn", "SigBlk"))])
print(sorted(number for number in map(int, os.listdir("/proc/self/fd")) if number < 3))
"""),
    "garbage collection": Program("""
import gc, weakref
print(gc.isenabled(), gc.get_threshold())
class Node:
    pass
node = Node()
node.itself = node
weakref.finalize(node, print, "collected")
del node
[[] for _ in range(2000)]
print("end", [[] for _ in range(2000)] == [])
"""),
    "traceback": Program("""
def train():
    raise ValueError('no data')
try:
    {}['x']
except KeyError:
    train()
"""),
    "exit code": Program("""
import os
me = int(os.environ['RANK'])
import sys
sys.exit(me + 3)
"""),
    "stdin and multiprocessing": Program(
        """
import multiprocessing, os, sys
def work(number):
    return number * 2, __name__, multiprocessing.current_process().name
if __name__ == "__main__":
    print(sys.stdin.readline(), sys.stdin.read())
    for method in ("spawn", "fork"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            print(method, pool.map(work, [1, 2, 3]))
""",
        stdin="first\nrest\n",
    ),
}
