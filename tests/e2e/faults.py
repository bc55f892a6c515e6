"""One rank of a job with torch in which faults are planted: for each name in argv one, the last one without an end.

Every fault but the last runs in a child of its own, whose output is in FAULT-rankN.log, so that torch is imported once.
"""

import datetime
import os
import socket
import sys
import time
from pathlib import Path

import torch
import torch._C._distributed_c10d as c10d
import torch.distributed as dist

torch.set_num_threads(1)
RANK = int(os.environ["RANK"])
BEHIND = int(os.environ.get("FAULTY_RANK", "1"))
PATIENCE = {"asleep": 600, "elsewhere": 600, "other": 8, "killed": 60}
"""Seconds, by fault, until a collective times out."""
OTHERS = float(os.environ.get("PATIENCE", "2"))


def load_data() -> None:
    """Keep the others waiting."""
    time.sleep(600)


def step(values: torch.Tensor) -> None:
    """Do what every rank does."""
    dist.all_reduce(values)


def run(fault: str, number: int) -> None:
    """Run until the fault."""
    os.environ["MASTER_PORT"] = str(int(os.environ["MASTER_PORT"]) + number)
    if fault == "port" and RANK == 0:
        taken = socket.socket(socket.AF_INET6)
        taken.bind(("::", int(os.environ["MASTER_PORT"])))
        taken.listen()
    if fault == "address":
        os.environ["MASTER_ADDR"] = "192.0.2.1"  # TEST-NET-1: nobody has it
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=PATIENCE.get(fault, OTHERS)))
    values = torch.ones(3, 4)
    step(values)
    print("started", RANK, flush=True)
    if fault == "killed" and RANK == BEHIND:
        os.kill(os.getpid(), 9)
    if fault == "asleep" and RANK == BEHIND:
        load_data()
    try:
        if fault in ("other", "elsewhere") and RANK == BEHIND:
            dist.broadcast(values, 0)
            dist.barrier()
        step(values)
    except Exception:
        trace = b""
        for _ in range(50):  # empty while another thread of torch holds the recorder
            if trace := c10d._dump_fr_trace():
                break
            time.sleep(0.1)
        Path(f"trace_rank_{RANK}").write_bytes(trace)
        raise


*ended, last = sys.argv[1:]
for number, fault in enumerate(ended, 1):
    child = os.fork()
    if not child:
        log = os.open(f"{fault}-rank{RANK}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        try:
            run(fault, number)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        os._exit(1)
    os.waitpid(child, 0)
run(last, 0)
