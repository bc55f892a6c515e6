"""`hpcmod check` and `hpcmod job --check` on four virtual nodes with planted faults, and the commands of the page.

A program `python3` in front of the real one plants the fault of a node: in name spaces of its own it hides a bind path,
fills a file system, takes the network interface away, puts another image in the place of the module's, or restricts the
cores. So the node program sees a real fault. Only the wrong clock is simulated.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Jobs, must
from tests.stack import CHECKOUT

pytestmark = pytest.mark.stack

PAGE = CHECKOUT / "docs" / "how-to" / "check-nodes.md"
ROUNDS = 10 if os.environ.get("HPCMOD_THOROUGH") == "1" else 1

SITE = """
name = "checked"
extends = "generic"
[network]
interfaces = ["hsn0"]
[binds]
required = ["{top}/bound/data"]
[caches]
node_local = "{top}/local"
[nodes]
default = "node"
[nodes.node]
cores = {cores}
partitions = ["small", "standard"]
[job]
exclusive = ["standard"]
"""

PYTHON = r"""#!/bin/bash
# Stands in front of python3: $FAULTS has a fault for some nodes, e.g. "nid002=shm nid003=bind", for all ("any"), or for
# the first one of a job that was not submitted again ("first").
PATH=${PATH#*:}
for fault in $FAULTS; do
  case ${fault%%=*} in
    "${SLURMD_NODENAME-}" | any) ;;
    first) [[ ${SLURM_NODEID-} == 0 && ! ${HPCMOD_RESUBMITTED-} ]] || continue ;;
    *) continue ;;
  esac
  own=(unshare --user --map-root-user --mount bash -c)
  case ${fault#*=} in
    bind) exec "${own[@]}" 'mount -t tmpfs tmpfs "$1"; exec python3 "${@:2}"' . "$TOP/bound" "$@" ;;
    shm) exec "${own[@]}" 'mount -t tmpfs -o size=1m tmpfs /dev/shm; exec python3 "$@"' . "$@" ;;
    local) exec "${own[@]}" 'mount -t tmpfs -o size=1m tmpfs "$1"; exec python3 "${@:2}"' . "$TOP/local" "$@" ;;
    image) exec "${own[@]}" 'mount --bind "$1" "$2"; exec python3 "${@:3}"' . "$TOP/other.sif" "$IMAGE" "$@" ;;
    interface) exec unshare --user --map-root-user --net python3 "$@" ;;
    mask) exec taskset -c 0 python3 "$@" ;;
    clock) PYTHONPATH=$TOP/clock exec python3 "$@" ;;
    silent) exit 0 ;;
    stuck) exec -a "stuck in $TOP" sleep 100 ;;
  esac
done
exec python3 "$@"
"""
CLOCK = "import time\nreal = time.time\ntime.time = lambda: real() + 100\n"


@dataclass(frozen=True)
class Checked:
    """The virtual machine with a profile that describes its nodes as they are, and faults by node."""

    jobs: Jobs
    site: Path
    image: str

    def environment(self, faults: str = "") -> dict[str, str]:
        top = self.jobs.directory
        path = self.jobs.machine.stack.environment(Path.home())["PATH"]
        own = {"PATH": f"{top / 'bin'}:{path}", "HPCMOD_SITE": str(self.site), "FAULTS": faults}
        return {**own, "TOP": str(top), "IMAGE": self.image}

    def check(self, *words: str, faults: str = "") -> tuple[int, dict[str, Any]]:
        done = self.jobs("hpcmod", "check", *words, "--json", **self.environment(faults))
        return done.returncode, json.loads(done.stdout or "{}") or {"stderr": done.stderr}


def failed(printed: dict[str, Any]) -> list[tuple[str, str]]:
    assert "findings" in printed, printed
    return sorted({(one["subject"], one["rule"]) for one in printed["findings"] if one["level"] == "fail"})


@pytest.fixture
def checked(tiny_jobs: Jobs) -> Iterator[Checked]:
    top = tiny_jobs.directory
    for name in ("bin", "bound/data", "local", "clock"):
        (top / name).mkdir(parents=True)
    (top / "bin" / "python3").write_text(PYTHON)
    (top / "bin" / "python3").chmod(0o755)
    (top / "clock" / "sitecustomize.py").write_text(CLOCK)
    (top / "other.sif").write_bytes(b"not the image")
    site = top / "checked.toml"
    site.write_text(SITE.format(top=top, cores=os.cpu_count()))
    image = must(tiny_jobs("bash", "-c", "module load PyTorch && echo $SIF")).stdout.strip()
    yield Checked(tiny_jobs, site, image)
    assert tiny_jobs.processes(str(top)) == []


def page_commands() -> list[list[str]]:
    """Return the commands of the page, without the `$`."""
    return [shlex.split(line) for line in re.findall(r"^ *\$ (hpcmod .*)$", PAGE.read_text(), re.MULTILINE)]


PLANTED = [
    ("nid001=bind nid002=shm nid003=interface nid004=image", {"bind", "space", "interface", "image"}),
    ("nid001=mask nid002=local nid003=clock nid004=silent", {"mask", "space", "clock", "answer"}),
]


@pytest.mark.parametrize("turn", range(ROUNDS))
def test_every_planted_fault_is_found_on_its_node_and_no_other(checked: Checked, turn: int) -> None:
    for faults, rules in PLANTED:
        planted = [fault.split("=") for fault in faults.split()]
        turned = [(f"nid{(number + turn) % 4 + 1:03}", fault) for number, (_, fault) in enumerate(planted)]
        named = " ".join("=".join(pair) for pair in turned)
        status, printed = checked.check("PyTorch", "-N", "4", "-p", "standard", faults=named)
        found = failed(printed)
        assert (status, {rule for _, rule in found}) == (1, rules)
        kinds = {"shm": "space", "local": "space", "silent": "answer"}
        assert found == sorted((node, kinds.get(fault, fault)) for node, fault in turned)


def test_the_commands_of_the_page_pass_on_healthy_nodes(checked: Checked) -> None:
    commands = page_commands()
    assert [words[1] for words in commands] == ["check", "check", "check", "job"]
    first, _, affinity, _ = commands
    done = must(checked.jobs(*first, **checked.environment()))
    assert len(set(re.findall(r"^(nid00\d)  (?:ok|warn) ", done.stdout, re.MULTILINE))) == 2
    warned = re.findall(r"^warn +\w+: (.*)$", done.stdout, re.MULTILINE)
    busy = re.compile("a process gets|computes at")  # this machine may be
    assert [text for text in warned if not busy.match(text)] == []
    done = must(checked.jobs(*affinity, **checked.environment()))
    assert re.findall(r"^(\d)  nid00\d  \d", done.stdout, re.MULTILINE) == ["0", "1"]


def test_a_job_with_a_bad_node_ends_before_its_program_starts_and_runs_without_the_node(checked: Checked) -> None:
    (checked.jobs.directory / "train.py").write_text("print('trained')\n")
    *_, job = page_commands()
    *words, _, program = ["-p", "batch", *job[3:]]  # of which the module's profile says nothing
    again = [*words[:-2], "--check-resubmit", words[-1]]
    started = {
        faults: must(checked.jobs(*job[:3], *more, "--", program, **checked.environment(faults))).stdout.strip()
        for faults, more in (("", words), ("first=shm", again))
    }
    checked.jobs.wait(*started.values())
    healthy, broken = (checked.jobs.output(number) for number in started.values())
    assert "check-nodes: all 2 nodes can be used" in healthy and "trained" in healthy
    assert "trained" not in broken and broken.count("/dev/shm is full") == 1
    assert re.search(r"1 of 2 nodes should not be used; to leave them out: sbatch --exclude=nid00\d\n", broken)
    assert checked.jobs.state(started["first=shm"]) == "FAILED"
    new = re.search(r"Submitted batch job (\d+)", broken)
    assert new
    checked.jobs.wait(new[1])
    assert "trained" in checked.jobs.output(new[1])
    nodes = must(checked.jobs("scontrol", "show", "job", new[1])).stdout
    assert re.search(r" ExcNodeList=nid00\d\b", nodes)


ENDINGS = {"killed": "kill -KILL $pid", "cancelled": "scancel $(squeue --noheader --format=%i)"}
ENDED = """
hpcmod check -N 2 -p small >out 2>&1 &
pid=$!
until pgrep -f "^stuck in" >/dev/null; do kill -0 $pid || { cat out; exit 9; }; sleep 0.1; done
END
until [[ -z $(squeue --noheader) ]]; do sleep 0.1; done
"""


@pytest.mark.parametrize("ending", ENDINGS)
def test_nothing_is_left_if_the_command_is(checked: Checked, ending: str) -> None:
    script = ENDED.replace("END", ENDINGS[ending])
    must(checked.jobs("timeout", "60", "bash", "-c", script, **checked.environment("any=stuck")))
