"""Look at one node of a job: processors, memory, disks, network interfaces, bind paths, image, GPUs.

Arguments: a JSON object with what to expect, and the image. Prints the problems, one per line, and that the node was checked.
Runs under the host's Python, 3.6 or newer.
"""
import fcntl
import glob
import hashlib
import json
import os
import re
import socket
import struct
import sys
import threading
import time

PATIENCE = 10.0  # seconds that a file system or a tool has to answer
LONG = 540.0  # seconds for a large image that is read completely
WHOLE = 256 << 20  # bytes; images up to this size are always read completely
SAMPLES, SAMPLE = 64, 65536  # blocks of a larger image, and bytes of each
LEAST = 64 << 20  # bytes; a directory with less free space is full
LITTLE = 1 << 30  # bytes; a directory with less free space gets a warning
LEAST_FILES = 1000
WINDOW = 0.12  # seconds to measure the speed, more than a scheduling period of cgroups
LEAST_SHARE = 0.5  # of a core
FLAGS_OF_INTERFACE, UP, RUNNING = 0x8913, 0x1, 0x40  # SIOCGIFFLAGS, IFF_UP, IFF_RUNNING: netdevice(7)
BINDS = ("SINGULARITY_BIND", "APPTAINER_BIND", "SINGULARITY_BINDPATH", "APPTAINER_BINDPATH")


def read(path, limit=1 << 16):
    """Return the text of a small file; empty if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(limit).decode("utf-8", "replace").strip()
    except OSError:
        return ""


def parse_list(text):
    """Return the numbers in a list such as 0-3,8."""
    numbers = []
    for part in filter(None, text.split(",")):
        low, _, high = part.partition("-")
        if low.isdigit() and (high.isdigit() or not high):
            numbers.extend(range(int(low), int(high or low) + 1))
    return numbers


def format_list(numbers):
    ranges = []
    for number in sorted(set(numbers)):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(str(low) if low == high else "%d-%d" % (low, high) for low, high in ranges)


def look(questions, patience=PATIENCE):
    """Return the answers by name; None if one takes too long.

    A file system that does not respond blocks its thread for good, so the process must end without waiting for it.
    """
    answers = {}

    def ask(name, question):
        try:
            answers[name] = question()
        except Exception as fault:  # a broken part of a node must not hide the others
            answers[name] = {"error": "%s: %s" % (type(fault).__name__, fault)}

    threads = [threading.Thread(target=ask, args=pair, daemon=True) for pair in questions.items()]
    for thread in threads:
        thread.start()
    end = time.monotonic() + patience
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    return {name: answers.get(name) for name in questions}


def find_cpus():
    return {"online": os.cpu_count() or 0, "allowed": sorted(os.sched_getaffinity(0))}


def find_memory():
    words = dict(re.findall(r"^(\w+):\s+(\d+) kB", read("/proc/meminfo"), re.MULTILINE))
    return {"total": int(words.get("MemTotal", 0)) * 1024, "available": int(words.get("MemAvailable", 0)) * 1024}


def find_space(directory):
    disk = os.statvfs(directory)
    files = disk.f_favail if disk.f_files else None  # some file systems do not count files
    return {"size": disk.f_blocks * disk.f_frsize, "free": disk.f_bavail * disk.f_frsize, "files": files}


def find_interfaces():
    """Return the network interfaces of this task's network name space; /sys may show those of another one."""
    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for _, name in socket.if_nameindex():
            request = struct.pack("16sH22x", name.encode(), 0)
            flags = struct.unpack_from("16xH", fcntl.ioctl(any_socket, FLAGS_OF_INTERFACE, request))[0]
            if name != "lo":
                found[name] = {"state": "up" if flags & (UP | RUNNING) == UP | RUNNING else "down"}
    return found


def complete_image(path, record):
    """Return what to expect of the image: what the record of the installation says, or at least that it can be read."""
    try:
        known = json.loads(read(record, 1 << 24))["image"]
        return {"path": path, "size": int(known["size"]), "sha256": known["sha256"]}
    except (ValueError, KeyError, TypeError):
        return {"path": path}


def find_image(asked):
    path = asked["path"]
    status = os.stat(path)
    facts = {"path": path, "size": status.st_size, "sha256": "", "sample": ""}
    whole = asked.get("whole") or status.st_size <= WHOLE
    with open(path, "rb") as file:
        digest = hashlib.sha256()
        if whole:
            for block in iter(lambda: file.read(1 << 20), b""):
                digest.update(block)
            facts["sha256"] = digest.hexdigest()
        else:
            for number in range(SAMPLES):
                file.seek((status.st_size - SAMPLE) * number // (SAMPLES - 1))
                digest.update(file.read(SAMPLE))
            facts["sample"] = digest.hexdigest()
    return facts


def find_gpus():
    """Return all GPUs that the drivers know, even if this job may not use them."""
    found = [("nvidia", os.path.basename(path).lower()) for path in sorted(glob.glob("/proc/driver/nvidia/gpus/*"))]
    nodes = glob.glob("/sys/class/kfd/kfd/topology/nodes/*")
    for path in sorted(nodes, key=lambda path: int(os.path.basename(path))):
        words = dict(line.split(None, 1) for line in read(path + "/properties").splitlines() if " " in line)
        if not words or words.get("simd_count", "0") != "0":  # the GPUs of other jobs cannot be read; processors can
            place, domain = int(words.get("location_id", 0)), int(words.get("domain", 0))
            address = "%04x:%02x:%02x.%x" % (domain, place >> 8, place >> 3 & 31, place & 7)
            found.append(("amd", address if words else ""))
    return [{"vendor": vendor, "address": address} for vendor, address in found]


def measure_speed():
    """Return how fast this node computes: MB/s of sha256 in the best block, and the share of it over a longer time."""
    block, best, blocks = bytes(1 << 18), 0.0, 0
    began = before = time.perf_counter()
    while before - began < WINDOW:
        hashlib.sha256(block).digest()
        now = time.perf_counter()
        best, blocks, before = max(best, len(block) / 1e6 / (now - before)), blocks + 1, now
    return {"best": round(best, 1), "share": round(max(blocks * len(block) / 1e6 / (before - began) / best, 0.001), 3)}


def find_binds(groups):
    """Return for each group of candidates the first source that exists; empty if none does."""
    kernel = os.uname().release
    found = []
    for group in groups:
        places = (source.replace("{uname_r}", kernel) for source in group["sources"])
        found.append(next((path for place in places for path in sorted(glob.glob(place))), ""))
    return found


def find_lost_binds():
    """Return the paths in the bind variables that do not exist here: any of them keeps containers from starting."""
    elements = re.split(r"(?<!\\),|\n", "\n".join(os.environ.get(name, "") for name in BINDS))
    sources = [re.sub(r"\\([:,])", r"\1", re.split(r"(?<!\\):", element, maxsplit=1)[0]) for element in elements]
    # an element that is no path is another option of the bind before it
    return [source for source in dict.fromkeys(sources) if source.startswith("/") and not os.path.exists(source)]


def find_facts(asked, more=()):
    """Return the facts of this node, with the answers to more questions."""
    places = {"space " + path: lambda path=path: find_space(path) for path in asked.get("places", ())}
    questions = {
        "cpus": find_cpus,
        "memory": find_memory,
        "interfaces": find_interfaces,
        "gpus": find_gpus,
        "binds": lambda: find_binds(asked.get("binds", ())),
        "lost": find_lost_binds,
    }
    questions.update(more)
    if asked.get("image"):
        questions["image"] = lambda: find_image(asked["image"])
    speed = measure_speed()  # before the threads, which would slow it down
    found = look(dict(questions, **places), LONG if (asked.get("image") or {}).get("whole") else PATIENCE)
    facts = {name: found[name] for name in questions}
    space = {path: found["space " + path] for path in asked.get("places", ())}
    return dict(facts, host=host_name(), space=space, speed=speed)


def host_name():
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname().partition(".")[0]


def gib(number):
    return "%.1f GiB" % (number / (1 << 30)) if number >= 1 << 30 else "%d MiB" % (number >> 20)


def choose_node(asked):
    """Return what to expect of this node: the node type of its partition, otherwise the only one."""
    nodes = asked.get("nodes", ())
    partition = os.environ.get("SLURM_JOB_PARTITION", "")
    named = [node for node in nodes if partition and partition in node.get("partitions", ())]
    return (named or (nodes if len(nodes) == 1 else []) or [{}])[0]


def judge(facts, asked):
    """Yield level, rule and explanation of each problem that this node has by itself."""
    node = choose_node(asked)
    for name in ("cpus", "memory", "interfaces", "gpus", "binds", "lost", "image"):
        if name in facts and facts[name] is None:
            yield "fail", "answer", "no answer within %d s about: %s" % (PATIENCE, name)
    if facts["speed"]["share"] < LEAST_SHARE:
        share = facts["speed"]["share"] * 100
        yield "warn", "busy", "a process gets %d %% of a core: others use it, or a limit applies" % share
    for rule in (judge_binds, judge_image, judge_space, judge_memory, judge_cpus, judge_interfaces, judge_gpus):
        yield from rule(facts, asked, node)


def judge_binds(facts, asked, node):
    for group, found in zip(asked.get("binds", ()), facts["binds"] or ()):
        if group.get("required") and not found:
            yield "fail", "bind", "required bind path %s is missing" % " or ".join(group["names"])
    for path in facts["lost"] or ():
        yield "fail", "bind", "bind path %s does not exist here, so containers do not start" % path


def judge_image(facts, asked, node):
    wanted, image = asked.get("image") or {}, facts.get("image")
    if not wanted or image is None:
        return
    if "error" in image:
        yield "fail", "image", "image %s cannot be read: %s" % (wanted["path"], image["error"])
    elif wanted.get("size") and image["size"] != wanted["size"]:
        yield "fail", "image", "image %s has %d bytes, expected %d" % (image["path"], image["size"], wanted["size"])
    elif wanted.get("sha256") and image["sha256"] and image["sha256"] != wanted["sha256"]:
        found, expected = image["sha256"][:12], wanted["sha256"][:12]
        yield "fail", "image", "image %s has sha256 %s..., expected %s..." % (image["path"], found, expected)


def judge_space(facts, asked, node):
    for path, space in sorted(facts["space"].items()):
        if space is None:
            yield "fail", "answer", "%s does not answer within %d s" % (path, PATIENCE)
        elif "error" in space:
            yield "fail", "space", "%s cannot be used: %s" % (path, space["error"])
        elif space["free"] < LEAST:
            yield "fail", "space", "%s is full: %s of %s free" % (path, gib(space["free"]), gib(space["size"]))
        elif space.get("files") is not None and space["files"] < LEAST_FILES:
            yield "fail", "space", "%s has room for %d more files only" % (path, space["files"])
        elif space["free"] < LITTLE:
            yield "warn", "space", "%s has only %s of %s free" % (path, gib(space["free"]), gib(space["size"]))


def judge_memory(facts, asked, node):
    memory, least = facts["memory"] or {}, node.get("memory", 0)
    if least and memory.get("total") and memory["total"] < least:
        yield "fail", "memory", "%s of memory, expected at least %s" % (gib(memory["total"]), gib(least))
    elif least and memory.get("available") and memory["available"] < least // 2:
        found = "only %s of memory available, a job may use %s: other processes or files in memory take the rest"
        yield "warn", "memory", found % (gib(memory["available"]), gib(least))


def judge_cpus(facts, asked, node):
    cpus = facts["cpus"] or {}
    alone = os.environ.get("SLURM_JOB_PARTITION", "") in asked.get("exclusive", ())
    least, wanted = node.get("cores", 0), set(parse_list(node.get("cpus", ""))) if alone else set()
    if least and cpus.get("online", least) < least:
        yield "fail", "cores", "%d CPUs, expected at least %d cores" % (cpus["online"], least)
    elif wanted and not wanted <= set(cpus.get("allowed", wanted)):
        lost = format_list(wanted - set(cpus["allowed"]))
        yield "fail", "mask", "this job may not use CPUs %s; it may use %s" % (lost, format_list(cpus["allowed"]))


def judge_interfaces(facts, asked, node):
    found, wanted = facts["interfaces"] or {}, asked.get("interfaces", ())
    up = [name for name in wanted if name in found and found[name]["state"] != "down"]
    if facts["interfaces"] is None or (asked.get("nodes") and not node.get("gpus") and up):
        return  # the profile lists those of nodes with GPUs; other nodes may have fewer
    for name in wanted:
        if name not in up:
            yield "fail", "interface", "network interface %s is %s" % (name, "down" if name in found else "missing")


def judge_gpus(facts, asked, node):
    wanted, found = node.get("gpus", 0), facts["gpus"]
    if isinstance(found, list) and len(found) < wanted:
        yield "fail", "gpus", "the driver knows %d GPUs, expected %d" % (len(found), wanted)


def main(words):
    asked = json.loads(words[0])
    if words[1]:
        asked["image"] = complete_image(words[1], asked["record"])
    facts = find_facts(asked)
    for level, _, found in judge(facts, asked):
        print(facts["host"], level, found)
    print(facts["host"], "checked")


if __name__ == "__main__":
    main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)  # a thread that waits for a file system must not keep the process
