"""One rank of a PyTorch job with planted faults: one for each JSON object in argv.

Every fault but the last runs in its own child process, with its output in NAME-rankN.log, so that torch is imported
only once. Keys: name; fault; rank (the affected one); call (collective that the others call); timeout in seconds; and
`how`.
"""

import ctypes
import datetime
import fcntl
import json
import mmap
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from multiprocessing import shared_memory
from pathlib import Path

RANK = int(os.environ["RANK"])


def fill(directory: str) -> None:
    """Mount a file system of 1 MiB over a directory, for this process only, which must not have threads yet."""
    libc, user, group = ctypes.CDLL(None, use_errno=True), os.getuid(), os.getgid()
    if libc.unshare(0x10000000 | 0x00020000):  # CLONE_NEWUSER, CLONE_NEWNS
        raise OSError(ctypes.get_errno(), "unshare")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    if libc.mount(b"tmpfs", directory.encode(), b"tmpfs", 0, b"size=1m"):
        raise OSError(ctypes.get_errno(), f"mount {directory}")


PLANTS = [json.loads(word) for word in sys.argv[1:]]
if (PLANTS[-1].get("fault"), PLANTS[-1].get("rank")) == ("full", RANK):
    fill(PLANTS[-1]["directory"])

import torch  # noqa: E402  # imported here, because it starts threads
import torch._C._distributed_c10d as c10d  # noqa: E402
import torch.distributed as dist  # noqa: E402

torch.set_num_threads(1)
CALLS = {
    "all_reduce": lambda values: dist.all_reduce(values),
    "all_gather": lambda values: dist.all_gather([torch.empty_like(values) for _ in range(size())], values),
    "broadcast": lambda values: dist.broadcast(values, 0),
    "barrier": lambda values: dist.barrier(),
    "reduce_scatter": lambda values: dist.reduce_scatter_tensor(torch.empty(4), torch.ones(4 * size())),
    "reduce": lambda values: dist.reduce(values, 0),
    "gather": lambda values: dist.gather(
        values, [torch.empty_like(values) for _ in range(size())] if not RANK else None
    ),
    "scatter": lambda values: dist.scatter(values, [torch.ones(3, 4) for _ in range(size())] if not RANK else None),
}


def size() -> int:
    """Return the number of ranks."""
    return dist.get_world_size()


class Slow(torch.utils.data.Dataset):
    """A data set that never returns its first item."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(600)
        return torch.ones(1)


class Large(Slow):
    """A data set with items of 8 MB."""

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.ones(1 << 21)


def load_data(how: str) -> None:
    """Keep the other ranks waiting."""
    if how == "sleep":
        time.sleep(600)
    elif how == "pipe":
        os.mkfifo(pipe := Path(tempfile.mkdtemp(), "pipe"))
        pipe.read_text()  # there is no writer
    elif how == "lock":
        with tempfile.NamedTemporaryFile() as first, Path(first.name).open() as second:
            fcntl.flock(first, fcntl.LOCK_EX)
            fcntl.flock(second, fcntl.LOCK_EX)
    elif how == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif how == "computes":
        values = torch.ones(200, 200)
        while True:
            values = values @ values / 200
    elif how == "loops":
        while True:
            pass
    elif how == "loader":
        next(iter(torch.utils.data.DataLoader(Slow(), num_workers=1)))
    elif how == "program":
        subprocess.run(["sleep", "600"])
    elif how == "socket":
        (listening := socket.socket()).listen()
        listening.accept()
    elif how == "numpy":
        torch.ones(1).numpy()
        time.sleep(600)


def die(how: str) -> None:
    """End this rank."""
    if how.startswith("SIG"):
        os.kill(os.getpid(), getattr(signal, how))
    elif how == "exit":
        os._exit(3)
    elif how in ("memory", "tensor"):
        limit = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + (256 << 20)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        kept = bytearray(1 << 33) if how == "memory" else torch.ones(1 << 33)
        print(len(kept))
    elif how == "oom":  # simulated: the line is Slurm's, the signal the kernel's
        kept = bytearray(64 << 20)
        job = os.environ["SLURM_JOB_ID"]
        print(f"slurmstepd: error: Detected 1 oom_kill event in StepId={job}.0.", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


def write_much(how: str, directory: str) -> None:
    """Write more than fits."""
    if how == "file":
        Path(directory, "cache.bin").write_bytes(bytes(8 << 20))
    elif how == "save":
        torch.save(torch.ones(1 << 21), f"{directory}/model.pt")
    elif how == "temporary":
        with tempfile.NamedTemporaryFile(dir=directory) as file:
            file.write(bytes(8 << 20))
    elif how == "loader":
        for _ in torch.utils.data.DataLoader(Large(), num_workers=2):
            pass
    elif how == "shared":
        block = shared_memory.SharedMemory(create=True, size=8 << 20)
        block.buf[:] = bytes(8 << 20)
    elif how == "mapped":
        with Path(directory, "mapped").open("wb+") as file:
            file.truncate(8 << 20)
            mmap.mmap(file.fileno(), 8 << 20).write(bytes(8 << 20))
    elif how == "tensor":
        torch.ones(1 << 21).share_memory_()
    elif how == "copy":
        subprocess.run(["cp", sys.executable, f"{directory}/copy"], check=True)


def step(call: str, values: torch.Tensor) -> None:
    """Call a collective, as every rank does."""
    CALLS[call](values)


def prepare(plant: dict, mine: bool) -> list[socket.socket]:
    """Plant faults that must exist before the ranks connect; return the sockets to keep open."""
    fault, how = plant["fault"], plant.get("how", "")
    if fault == "address" and mine:
        os.environ["MASTER_ADDR"] = how
    if fault == "interface" and mine:
        os.environ["GLOO_SOCKET_IFNAME"] = how
    if fault == "port" and RANK == 0:
        port = int(os.environ["MASTER_PORT"])
        taken = socket.socket(socket.AF_INET if how == "4" else socket.AF_INET6)
        taken.bind(("" if how == "4" else "::", port))
        taken.listen()
        return [taken]
    return []


def dump_recorder() -> bytes:
    """Return the content of PyTorch's flight recorder; empty while another thread of torch locks it."""
    for _ in range(50):
        if trace := c10d._dump_fr_trace():
            return trace
        time.sleep(0.1)
    return b""


def run(plant: dict, number: int) -> None:
    """Run a plant until its fault."""
    os.environ["MASTER_PORT"] = str(int(os.environ["MASTER_PORT"]) + number)
    fault, how, call = plant["fault"], plant.get("how", ""), plant.get("call", "all_reduce")
    mine = plant.get("rank", -1) in (RANK, "all")
    kept = prepare(plant, mine)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=plant.get("timeout", 20)))
    values = torch.ones(3, 4)
    step("all_reduce", values)
    print("started", RANK, flush=True)
    if mine and fault == "killed":
        die(how)
    if fault == "reads":
        print(len(Path(how).read_text()))
    if mine and fault == "asleep":
        load_data(how)
    if mine and fault == "full":
        write_much(how, plant["directory"])
    try:
        if fault == "other":
            for _ in range(plant.get("before", 0)):
                step("all_reduce", values)
        if mine and fault == "other":
            step(how, values)
            dist.barrier()
        for _ in range(plant.get("steps", 1)):
            step(call, values)
            if fault == "none":
                time.sleep(plant.get("pause", 0))
    except Exception:
        if fault == "other":
            Path(f"{plant['name']}_trace_rank_{RANK}").write_bytes(dump_recorder())
        raise
    dist.barrier()
    dist.destroy_process_group()
    print("done", RANK, flush=True)
    del kept


def main() -> None:
    """Run every plant."""
    *children, last = PLANTS
    for number, plant in enumerate(children, 1):
        child = os.fork()
        if not child:
            log = os.open(f"{plant['name']}-rank{RANK}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            os.dup2(log, 1)
            os.dup2(log, 2)
            status = 1
            try:
                if (plant["fault"], plant.get("rank")) == ("full", RANK):
                    fill(plant["directory"])
                run(plant, number)
                status = 0
            except BaseException:
                sys.excepthook(*sys.exc_info())
            sys.stdout.flush()
            os._exit(status)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            print(f"{plant['name']}: rank {RANK} ended with signal {os.WTERMSIG(status)}", flush=True)
    run(last, 0)


main()
