"""The program of each rank of `hpcmod check --network`, in the image: small all-reduces, reported as JSON lines."""

from __future__ import annotations

from hpcmod.core.values.text import away_from_here

PROGRAM = away_from_here(r'''
"""All-reduce a small tensor over each library of the image, and report every result in one line."""
import json
import os
import socket
import sys
import threading
import time
import traceback

RANK = int(os.environ.get("RANK", "0"))
SIZE = int(os.environ.get("WORLD_SIZE", "1"))
TIMEOUT = int(sys.argv[1])
COUNT = 1 << 18
INTERFACES = ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME")


def missing_interfaces():
    there = {name for _, name in socket.if_nameindex()}  # /sys may show those of another network name space
    named = [(name, word) for name in INTERFACES for word in os.environ.get(name, "").split(",") if word]
    return ["%s=%s" % pair for pair in named if pair[1] not in there]


def report(library, size=SIZE, error="", began=None):
    values = {
        "rank": RANK,
        "host": socket.gethostname(),
        "library": library,
        "size": size,
        "error": error[:400],
        "seconds": round(time.time() - began, 3) if began else 0,
        "missing": missing_interfaces() if error else [],
        "interface": os.environ.get("GLOO_SOCKET_IFNAME", "") if library == "gloo" else "",
    }
    sys.stdout.write("hpcmod-allreduce %s\n" % json.dumps(values))
    sys.stdout.flush()


def attempt(library, function):
    began = time.time()
    late = threading.Timer(2 * TIMEOUT, give_up, (library, began))
    late.daemon = True
    late.start()
    try:
        report(library, size=function(), began=began)
        return True
    except BaseException as error:
        traceback.print_exc()
        report(library, error="%s: %s" % (type(error).__name__, " ".join(str(error).split())), began=began)
        return False
    finally:
        late.cancel()


def give_up(library, began):
    report(library, error="no answer within %d s" % (2 * TIMEOUT), began=began)
    os._exit(1)


def check(total, size):
    if total != size * (size - 1) / 2:
        raise RuntimeError("the sum is %s, expected %s" % (total, size * (size - 1) / 2))


def torch_backends():
    import torch

    return ["nccl", "gloo"] if torch.cuda.is_available() and torch.distributed.is_nccl_available() else ["gloo"]


def first_backend(backend):
    import datetime

    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    if backend == "nccl":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    dist.init_process_group(backend, timeout=datetime.timedelta(seconds=TIMEOUT))
    return reduce_torch(backend)


def reduce_torch(backend, group=None):
    import torch
    import torch.distributed as dist

    device = "cuda" if backend == "nccl" else "cpu"
    tensor = torch.full((COUNT,), float(dist.get_rank()), device=device)
    dist.all_reduce(tensor, group=group)
    check(tensor[COUNT - 1].item(), dist.get_world_size())
    return dist.get_world_size()


def second_backend(backend):
    import torch.distributed as dist

    return reduce_torch(backend, dist.new_group(backend=backend))


def reduce_mpi():
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    check(world.allreduce(float(world.rank)), world.size)
    return world.size


def main():
    good = True
    try:
        backends = torch_backends()
    except ImportError as error:
        report("torch", error="%s" % error)
        backends = []
    for number, backend in enumerate(backends):
        if good:
            good = attempt(backend, lambda: (second_backend if number else first_backend)(backend))
    if good and backends:
        import torch.distributed as dist

        dist.barrier()
        dist.destroy_process_group()
    try:
        import mpi4py
    except ImportError:
        pass
    else:
        good = attempt("mpi", reduce_mpi) and good
        backends.append("mpi")
    sys.exit(0 if good and backends else 1)


main()
''')
"""Standard library only, besides what the image has: PyTorch and mpi4py. Its argument is a timeout in seconds."""

DEBUG = {
    "NCCL_DEBUG": "INFO",
    "NCCL_DEBUG_SUBSYS": "INIT,NET,ENV",
    "TORCH_CPP_LOG_LEVEL": "INFO",
    "FI_LOG_LEVEL": "warn",
    "MPICH_OFI_VERBOSE": "1",
    "MPICH_OFI_NIC_VERBOSE": "1",
    "MPIR_CVAR_DEBUG_SUMMARY": "1",
    "OMPI_MCA_mtl_base_verbose": "10",
    "UCX_LOG_LEVEL": "info",
}
"""Variables that make the libraries say which network they use."""
