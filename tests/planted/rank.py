"""One rank of a PyTorch job with planted faults: one for each JSON object in argv.

Every fault but the last runs in its own child process, with its output in NAME-rankN.log, so that torch is imported
only once. Keys: name; fault (other: the rank calls another collective; port: it is taken; address: wrong MASTER_ADDR;
asleep: the rank keeps the others waiting); rank (the affected one); timeout in seconds; and `how`.
"""

import datetime
import json
import os
import socket
import sys
import time
from pathlib import Path

import torch
import torch._C._distributed_c10d as c10d
import torch.distributed as dist

RANK = int(os.environ["RANK"])
PLANTS = [json.loads(text) for text in sys.argv[1:]]

torch.set_num_threads(1)


def load_data() -> None:
    """Keep the other ranks waiting."""
    time.sleep(600)


def prepare(plant: dict, mine: bool) -> list[socket.socket]:
    """Plant faults that must exist before the ranks connect; return the sockets to keep open."""
    if plant["fault"] == "address" and mine:
        os.environ["MASTER_ADDR"] = plant["how"]
    if plant["fault"] == "port" and RANK == 0:
        taken = socket.socket(socket.AF_INET6)
        taken.bind(("::", int(os.environ["MASTER_PORT"])))
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
    fault, mine = plant["fault"], plant.get("rank", -1) in (RANK, "all")
    kept = prepare(plant, mine)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=plant["timeout"]))
    values = torch.ones(3, 4)
    dist.all_reduce(values)
    print("started", RANK, flush=True)
    if mine and fault == "asleep":
        load_data()
    try:
        if mine and fault == "other":
            dist.broadcast(values, 0)
            dist.barrier()
        dist.all_reduce(values)
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
