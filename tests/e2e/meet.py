"""One rank of a job without torch: all ranks meet at MASTER_ADDR:MASTER_PORT, sum their ranks and print JSON lines.

Rank 0 listens on that port on every interface, so two groups with the same port on a node would fail or get wrong sums.
The argument is how long the group stays together, in seconds.
"""

import json
import os
import socket
import sys
import time

NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT")
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
group = os.environ.get("GROUP", "")


def add_up() -> int:
    with socket.create_server(("", place[1])) as server:
        peers = [server.accept()[0] for _ in range(size - 1)]
        words = [peer.makefile("r").readline().split() for peer in peers]
        if any(word[0] != f"group={group}" for word in words):
            raise SystemExit(f"rank 0 of {group} met {words}")
        total = rank + sum(int(word[1]) for word in words)
        time.sleep(float(sys.argv[1]))
        for peer in peers:
            peer.sendall(f"{total}\n".encode())
    return total


def ask() -> int:
    for _ in range(300):
        try:
            peer = socket.create_connection(place, timeout=60)
            break
        except OSError:
            time.sleep(0.1)
    else:
        raise SystemExit(f"rank {rank}: nobody at {place}")
    with peer:
        peer.sendall(f"group={group} {rank}\n".encode())
        return int(peer.makefile("r").readline())


total = add_up() if rank == 0 else ask()
told = {name: os.environ.get(name) for name in NAMES}
print(json.dumps({**told, "total": total, "host": socket.gethostname(), "group": group}), flush=True)
