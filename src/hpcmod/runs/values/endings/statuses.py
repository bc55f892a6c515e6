"""Exit codes and signals of processes, in words."""

from __future__ import annotations

import re

SIGNALS = {
    2: ("SIGINT", "interrupted, as by Ctrl-C"),
    4: ("SIGILL", "an instruction that this CPU does not have: the program or a library was built for another CPU"),
    6: ("SIGABRT", "the program ended itself after an error; its message is in the output"),
    7: ("SIGBUS", "memory that cannot be provided: often a full /dev/shm or /tmp, or a file that was cut short"),
    8: ("SIGFPE", "an arithmetic error"),
    9: ("SIGKILL", "killed from outside: by the kernel for want of memory, by the scheduler, or by a user"),
    10: ("SIGUSR1", "a signal that the program does not handle"),
    11: ("SIGSEGV", "a crash in the program or a library"),
    15: ("SIGTERM", "asked to end, by the scheduler or after another rank failed"),
    24: ("SIGXCPU", "the limit of CPU time"),
    25: ("SIGXFSZ", "the limit of file size"),
}
"""Name and meaning by number, as on Linux on x86-64 and aarch64 (signal(7))."""

CURES = {
    4: "Use an image and packages that were built for the CPUs of these nodes.",
    7: "df -h /dev/shm /tmp on the node shows whether one is full; use fewer data loader workers.",
    9: "If nobody cancelled it, it was most likely memory: `sacct -j JOB -o jobid,state,maxrss` shows what was used. "
    "Request more (--sbatch=--mem=0 is all of the node), or use less: fewer data loader workers, smaller batches.",
    11: "PYTHONFAULTHANDLER=1 prints the stack of Python. With MPI, host and image may not fit: hpcmod compat.",
}
"""What to do, by number, where nothing else explains the signal."""

CODES = {
    1: "an error of the program; its message is in the output",
    2: "wrong usage of a program or shell",
    126: "the program was found, but cannot be executed",
    127: "a program was not found",
    255: "an error of the container runtime or of ssh, or exit code -1 of the program",
}

_WORDS = {
    "Hangup": 1,
    "Interrupt": 2,
    "Illegal instruction": 4,
    "Aborted": 6,
    "Bus error": 7,
    "Floating point exception": 8,
    "Killed": 9,
    "User defined signal 1": 10,
    "Segmentation fault": 11,
    "Terminated": 15,
    "CPU time limit exceeded": 24,
    "File size limit exceeded": 25,
}
"""Signals as srun and bash name them, after strsignal(3)."""

ABORTED, KILLED, TERMINATED = 6, 9, 15


def signal_of(code: int) -> int:
    """Return the signal in an exit code of a shell (128 + signal) or of Python (-signal); 0 if there is none."""
    number = -code if code < 0 else code - 128
    return number if 0 < number < 65 else 0


def explain_status(code: int, signal: int = 0) -> str:
    """Return an exit code or signal in words."""
    number = signal or signal_of(code)
    if number:
        name, meaning = SIGNALS.get(number, (f"signal {number}", "ended by a signal"))
        shown = f"signal {number} ({name})" if signal or code < 0 else f"exit code {code}: signal {number} ({name})"
        return f"{shown}: {meaning}"
    return f"exit code {code}: {CODES.get(code, 'an error code of the program itself')}"


def parse_outcome(text: str) -> tuple[int, int] | None:
    """Return exit code and signal of an outcome as srun words it; None if it is none."""
    code = re.match(r"Exited with exit code (\d{1,3})", text)
    if code:
        return int(code[1]), signal_of(int(code[1]))
    word = next((word for word in _WORDS if text.startswith(word)), "")
    return (0, _WORDS[word]) if word else None
