"""Measure the start of this Python for HPCMOD_TIMING, or record a trace with torch.profiler for --profiler torch.

Python imports it as sitecustomize. Before the program starts, the environment, sys.path and sitecustomize are as without it.
Whatever fails here, the program runs.
"""

import _frozen_importlib
import _thread
import atexit
import os
import sys
import time

CLOCK = 7  # CLOCK_BOOTTIME, as /proc/uptime; Python 3.6 has no name for it
MOST = 3  # packages in a record

def clock():
    """Return the seconds since the node was started."""
    return time.clock_gettime(CLOCK)


IMPORT = """
def made(name, import_):
    if get_ident() != thread:
        return original(name, import_)
    outer = begin()
    try:
        return original(name, import_)
    finally:
        end(name, outer)
"""

def is_complete(name):
    """Return whether a module was imported to its end."""
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return spec is not None and not getattr(spec, "_initializing", False)


class Imports:
    """Self times of imported packages, measured around the function that loads a module."""

    def __init__(self, loaded):
        self.own, self.total, self.inner, self.count, self.depth = {}, 0.0, 0.0, 0, 0
        self.loaded = loaded
        self.original = _frozen_importlib._find_and_load
        names = {"get_ident": _thread.get_ident, "thread": _thread.get_ident(), "begin": self.begin, "end": self.end}
        names["original"] = self.original
        # tracebacks leave out lines of Python's own import system
        exec(compile(IMPORT, "<frozen importlib._bootstrap>", "exec"), names)
        _frozen_importlib._find_and_load = self.ours = names["made"]

    def begin(self):
        """Return the inner time of the enclosing import, and when this one began."""
        outer, self.inner, self.depth = self.inner, 0.0, self.depth + 1
        return outer, time.perf_counter()

    def end(self, name, began):
        """Add the time of a module to its package."""
        outer, since = began
        whole = time.perf_counter() - since
        package = name.partition(".")[0]
        self.own[package] = self.own.get(package, 0.0) + whole - self.inner
        self.inner = outer + whole
        self.depth -= 1
        self.count += 1
        if not self.depth:
            self.total += whole
            self.inner = 0.0
        if name == "torch" and self.loaded and is_complete(name):
            loaded, self.loaded = self.loaded, None
            loaded()

    def stop(self):
        if _frozen_importlib._find_and_load is self.ours:
            _frozen_importlib._find_and_load = self.original

    def slowest(self):
        """Return the packages that took longest, as `NAME SECONDS, ...`."""
        plain = [(took, name) for name, took in self.own.items() if name.replace("_", "a").isalnum() and len(name) < 40]
        return ", ".join("%s %.2f" % (name, took) for took, name in sorted(plain, reverse=True)[:MOST] if took >= 0.005)


class Watch:
    """What follows the import of torch, optimizer steps and the end of this process, but not of its children."""

    def __init__(self):
        self.process = os.getpid()
        self.imports = Imports(self.hook)
        atexit.register(self.in_process(self.exit))

    def in_process(self, method):
        return lambda *words: method() if os.getpid() == self.process else None

    def hook_steps(self):
        """Call `after_step` after each optimizer step, by PyTorch's own hook; return whether there is one."""
        register = getattr(sys.modules.get("torch.optim.optimizer"), "register_optimizer_step_post_hook", None)
        if register:
            register(self.in_process(self.after_step))
        return bool(register)


class Start(Watch):
    """The record of this rank."""

    def __init__(self, path, summary):
        self.path, self.summary = path, summary
        self.found = {"python": "%.3f" % clock()}
        self.write()
        Watch.__init__(self)

    def write(self):
        try:
            with open(self.path, "a") as file:
                file.write("".join("%s %s\n" % pair for pair in self.found.items()))
        except OSError:
            pass

    def finish(self):
        self.found["imports"] = "%.3f %d" % (self.imports.total, self.imports.count)
        self.found["packages"] = self.imports.slowest()
        self.write()

    def hook(self):
        try:
            self.hook_steps()
        except Exception:
            pass

    def after_step(self):
        if "step" not in self.found:  # the hook stays: PyTorch iterates over its hooks here
            self.found["step"] = "%.3f" % clock()
            self.finish()
            self.imports.stop()

    def exit(self):
        """Complete the record; rank 0 prints the summary of its node."""
        try:
            self.finish()
            if self.summary:
                print_summary(self.path.rpartition("-")[0])
        except Exception:
            pass


class Trace(Watch):
    """A trace of some steps, or of the whole run, by torch.profiler."""

    def __init__(self, steps, path):
        self.steps, self.path, self.done, self.profiler, self.waits = steps, path, 0, None, False
        Watch.__init__(self)

    def hook(self):
        """Begin when torch is imported, or after its first optimizer step."""
        self.imports.stop()
        self.waits = self.steps and self.hook_steps()
        if not self.waits:
            self.start()

    def start(self):
        try:
            from torch.profiler import profile

            self.profiler = profile()
            self.profiler.start()
        except Exception as err:
            self.profiler = None
            sys.stderr.write("hpcmod: torch.profiler cannot start: %s\n" % err)

    def after_step(self):
        self.done += 1
        if self.done == 1:
            self.start()
        elif self.done > self.steps:
            self.stop()

    def stop(self):
        profiler, self.profiler = self.profiler, None
        if profiler:
            try:
                profiler.stop()
                profiler.export_chrome_trace(self.path)
            except Exception as err:
                sys.stderr.write("hpcmod: torch.profiler wrote no trace: %s\n" % err)

    def exit(self):
        if self.waits and not self.done:
            sys.stderr.write("hpcmod: no trace, because no optimizer took a step; to record the whole run: --profile-steps 0\n")
        self.stop()


def seconds(record, key):
    """Return a time of a record; None if it is missing or not a number."""
    try:
        value = float(record[key].split(" ")[0])
    except (KeyError, ValueError):
        return None
    return value if 0 <= value < 1e12 else None


def took(record, begin, end):
    """Return the seconds between two times of a record; None if one is missing."""
    first, last = seconds(record, begin), seconds(record, end)
    return None if None in (first, last) else max(last - first, 0.0)


PHASES = (
    ("container", lambda record: took(record, "task", "script")),
    ("interpreter", lambda record: took(record, "script", "python")),
    ("imports", lambda record: seconds(record, "imports")),
    ("to first step", lambda record: took(record, "task" if "task" in record else "script", "step")),
)


def show(value):
    return "%.0f" % value if value >= 100 else "%.1f" % value if value >= 10 else "%.2f" % value


def spread(records, measure):
    """Return minimum, median and maximum over the ranks as text, and the slowest record or None."""
    found = sorted(((measure(one), number) for number, one in enumerate(records) if measure(one) is not None))
    if not found:
        return "unknown", None
    middle = (found[(len(found) - 1) // 2][0] + found[len(found) // 2][0]) / 2
    text = "/".join(show(value) for value in (found[0][0], middle, found[-1][0]))
    few = "" if len(found) == len(records) else " (%d of %d ranks)" % (len(found), len(records))
    return text + few, records[found[-1][1]]


def print_summary(beginning):
    """Print one line about the ranks of this step on this node, whose records begin with a path."""
    records, phases = [], []
    directory, start = os.path.split(beginning + "-")
    for name in sorted(os.listdir(directory))[:4096]:
        if name.startswith(start):
            with open(os.path.join(directory, name)) as file:
                records.append(dict(line.split(" ", 1) for line in file.read(4096).splitlines() if " " in line))
    for title, measure in PHASES:
        text, slowest = spread(records, measure)
        packages = slowest.get("packages", "") if title == "imports" and slowest else ""
        phases.append("%s %s%s" % (title, text, " (%s)" % packages if packages else ""))
    host = records[0].get("host", "this node") if records else "this node"
    ranks = "%d rank%s on %s" % (len(records), "s"[len(records) == 1 :], host)
    sys.stderr.write("hpcmod: start of %s, seconds min/median/max: %s\n" % (ranks, ", ".join(phases)))


def restore():
    """Restore the environment, sys.path and the sitecustomize of the image; return our settings."""
    names = ("PROBE", "PYTHONPATH", "RECORD", "TRACE")
    directory, former, record, trace = (os.environ.pop("_HPCMOD_" + name, "") for name in names)
    os.environ.pop("PYTHONPATH", None)
    if former:
        os.environ["PYTHONPATH"] = former[1:]
    sys.path[:] = [path for path in sys.path if path != directory]
    sys.path_importer_cache.pop(directory, None)
    return record, trace


def begin():
    record, trace = restore()
    try:
        if trace:
            steps, _, path = trace.partition(":")
            Trace(int(steps), path)
        if record:
            Start(record, os.environ.get("RANK") == "0")
    except Exception:
        pass
    ours = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # noqa: F401 - that of the image
    except ImportError as err:
        if err.name != "sitecustomize":
            raise
        sys.modules["sitecustomize"] = ours


begin()
