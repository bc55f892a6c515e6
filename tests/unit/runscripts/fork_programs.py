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
"""Programs in every test run."""

MORE = {
    "exit without cleaning up": Program("""
import os
print('lost')
os._exit(7)
"""),
    "abort": Program("""
import os
print('kept', flush=True)
os.abort()
"""),
    "default SIGTERM": Program("""
import os, signal, time
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(9)
"""),
    "keyboard interrupt": Program("""
raise KeyboardInterrupt
"""),
    "interrupt by signal": Program("""
import os, signal, time
os.kill(os.getpid(), signal.SIGINT)
time.sleep(9)
"""),
    "handler": Program("""
import os, signal, sys
signal.signal(signal.SIGUSR1, lambda *_: (print("checkpoint"), sys.exit(9)))
os.kill(os.getpid(), signal.SIGUSR1)
signal.pause()
"""),
    "alarm": Program("""
import signal
signal.alarm(1)
signal.pause()
"""),
    "broken pipe": Program("""
import os
r, w = os.pipe()
os.close(r)
os.write(w, b'x')
"""),
    "forkserver": Program("""
import multiprocessing as mp
def work(queue):
    queue.put(("child", __name__))
if __name__ == "__main__":
    mp.set_start_method("forkserver")
    queue = mp.Queue()
    child = mp.Process(target=work, args=(queue,))
    child.start()
    print(queue.get(), child.join(), child.exitcode)
"""),
    "shared memory": Program("""
from multiprocessing import shared_memory, Manager, Lock
if __name__ == "__main__":
    block = shared_memory.SharedMemory(create=True, size=10)
    block.buf[0] = 7
    print(shared_memory.SharedMemory(block.name).buf[0])
    block.close(); block.unlink()
    with Manager() as manager:
        print(list(manager.list([1, 2])))
"""),
    "threads": Program("""
import threading, time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
def square(x): return x * x
if __name__ == "__main__":
    print(threading.main_thread() is threading.current_thread(), threading.active_count())
    with ThreadPoolExecutor(4) as pool, ProcessPoolExecutor(2) as others:
        print(list(pool.map(square, range(9))), list(others.map(square, range(9))))
    threading.Timer(0.2, lambda: print("after main")).start()
"""),
    "exception in a thread": Program("""
import threading
threading.Thread(target=lambda: 1 / 0, name='t').start()
"""),
    "module": Program("", before=("-m", "calendar", "2026", "11")),
    "command": Program("", before=("-c", "import sys; print(sys.argv, __name__, sys.path[0]); sys.exit(4)", "a")),
    "debugger on a pipe": Program(
        """
x = 1
x = 2
print(x)
""",
        before=("-m", "pdb"),
        stdin="n\nn\np x\nq\n",
    ),
    "stack": Program("""
import inspect, sys, traceback
print(len(inspect.stack()), sys._getframe().f_back)
traceback.print_stack()
"""),
    "pickle of main": Program("""
import pickle
class Model:
    pass
print(type(pickle.loads(pickle.dumps(Model()))), Model.__module__)
"""),
    "unflushed text and fork": Program(r"""
import os, sys
sys.stdout.write('half ')
if os.fork() == 0:
    sys.stdout.write('child\n')
    sys.exit(0)
os.wait()
print('parent')
"""),
    "faulthandler": Program("""
import faulthandler, os, signal
faulthandler.enable()
os.kill(os.getpid(), signal.SIGSEGV)
"""),
    "binary output": Program("""
import sys
sys.stdout.buffer.write(bytes(range(256)) * 500)
"""),
    "large output": Program("""
for n in range(20000):
    print('line', n)
"""),
    "children that outlive": Program("""
import subprocess
subprocess.Popen(['sleep', '0.3'])
print('gone')
"""),
    "group": Program("""
import os, signal
signal.signal(signal.SIGTERM, lambda *_: (print('group'), exit(3)))
os.killpg(0, signal.SIGTERM)
"""),
}
"""Programs with HPCMOD_THOROUGH=1."""
