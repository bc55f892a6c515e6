"""get-master compared with Slurm's own parser of host lists, `scontrol show hostnames`."""

from __future__ import annotations

import math
import os
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from hpcmod.core.resources import runscript_files

pytestmark = pytest.mark.stack

PROMPT = "scontrol: show hostnames "
LOOP = r"""
while IFS= read -r list; do
  if first_host "$list" 2>/dev/null; then printf '%s\n' "$REPLY"; else echo; fi
done
"""


@pytest.fixture(scope="module")
def slurm_conf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The minimal configuration that scontrol needs to run."""
    file = tmp_path_factory.mktemp("slurm") / "slurm.conf"
    file.write_text("ClusterName=x\nSlurmctldHost=localhost\n")
    return file


def ask_slurm(lists: list[str], slurm_conf: Path) -> list[str]:
    """Return the first host of each list, empty where Slurm rejects it, from a single scontrol session."""
    if shutil.which("scontrol") is None:
        pytest.skip("no scontrol on this machine")
    dialogue = "".join(f"show hostnames {hosts}\n" for hosts in lists)
    # scontrol echoes its input, and truncates lines wider than its terminal.
    env = {"PATH": os.environ["PATH"], "SLURM_CONF": str(slurm_conf), "TERM": "dumb", "COLUMNS": "100000"}
    done = subprocess.run(["scontrol"], input=dialogue, env=env, capture_output=True, text=True, timeout=60)
    answers = done.stdout.split(PROMPT)[1:]
    assert len(answers) == len(lists)
    return [answer.split("\n")[1].removeprefix("scontrol: ") for answer in answers]


def ask_us(lists: list[str]) -> list[str]:
    """Return the first host of each list, empty where we reject it, from a single bash process."""
    script = runscript_files()["lib/common.bash"] + LOOP
    given = "".join(f"{hosts}\n" for hosts in lists)
    done = subprocess.run(["bash", "-uc", script], input=given, capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    return done.stdout.split("\n")[:-1]


def hosts_at_most(hosts: str) -> int:
    """Return an upper bound for the number of hosts in a list, as Slurm expands them all."""
    spans = [(int(first), int(last)) for first, last in re.findall(r"(\d+)-(\d+)", hosts)]
    return math.prod(max(2, last - first + 1) for first, last in spans)


class Writer:
    """Generates host lists like those written by Slurm and by people, with an occasional invalid range."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - the same lists in every run

    def number(self) -> str:
        digits = self.random.choice((1, 1, 2, 3, 6))
        value = self.random.randrange(10 ** self.random.choice((1, 1, digits)))
        return f"{value:0{self.random.choice((1, digits))}}"

    def range(self) -> str:
        if self.random.random() < 0.4:
            return self.number()
        first = self.number()
        if self.random.random() < 0.1:
            return f"{first}-{self.number()}"
        return f"{first}-{int(first) + self.random.choice((0, 1, 2, 9, 90)):0{self.random.choice((1, len(first)))}}"

    def bracket(self) -> str:
        return f"[{','.join(self.range() for _ in range(self.random.choice((1, 1, 1, 2, 3))))}]"

    def host(self) -> str:
        prefix = "".join(self.random.choice(("nid", "x", "gpu", "c-", "r.", "a_", "7", "0", "")) for _ in range(2))
        if self.random.random() < 0.3:
            return f"{prefix}{self.number()}"
        middles = ("", "-", "n", "node", "s0b", "1")
        brackets = [self.bracket() for _ in range(self.random.choice((1, 1, 1, 2, 2, 3)))]
        return prefix + "".join(f"{self.random.choice(middles)}{bracket}" for bracket in brackets)

    def host_list(self) -> str:
        hosts = [self.host() for _ in range(self.random.choice((1, 1, 2, 3, 5)))]
        return self.random.choice((",",) * 20 + (",,",)).join(hosts)

    def spoiled(self) -> str:
        """Return a list with one to three characters inserted, deleted or replaced."""
        letters = list(self.host_list())
        for _ in range(self.random.choice((1, 1, 2, 3))):
            place = self.random.randrange(len(letters) + 1)
            letters[place : place + self.random.choice((0, 1))] = self.random.choice(("", *"[]-,019ax."))
        return "".join(letters)


def falls(hosts: str) -> bool:
    """Return whether a range is descending: Slurm silently drops such a host if it has three brackets."""
    return any(int(first) > int(last) for first, last in re.findall(r"[\[,](\d+)-(\d+)(?=[\],])", hosts))


def is_for_us_alone(hosts: str) -> bool:
    """Return whether we differ on purpose: we keep text after a bracket, which Slurm 22.05 cannot expand."""
    return re.search(r"\][^\],\[]+(,|$)", hosts) is not None


def test_agrees_with_scontrol_on_every_list_of_the_grammar(slurm_conf: Path) -> None:
    writer = Writer(0)
    # Slurm accepts a leading sign as part of a name, but every program would treat such a host as an option.
    lists = [hosts for _ in range(2000) if not re.search(r"(^|,)[-._]", hosts := writer.host_list())]
    lists = [hosts for hosts in lists if hosts_at_most(hosts) < 5000]
    theirs, ours = ask_slurm(lists, slurm_conf), ask_us(lists)
    differing = [each for each in zip(lists, theirs, ours) if each[1] != each[2]]
    assert [each for each in differing if each[2] or not falls(each[0])] == []
    assert sum(1 for host in theirs if host) > 1000 and "" in theirs


def test_a_damaged_list_is_refused_or_read_as_scontrol_does(slurm_conf: Path) -> None:
    writer = Writer(100)
    lists = [hosts for _ in range(2000) if (hosts := writer.spoiled()) and hosts_at_most(hosts) < 5000]
    theirs, ours = ask_slurm(lists, slurm_conf), ask_us(lists)
    wrong = [each for each in zip(lists, theirs, ours) if each[2] not in ("", each[1]) and not is_for_us_alone(each[0])]
    assert wrong == []


def test_agrees_with_scontrol_on_the_lists_of_the_largest_machine(slurm_conf: Path) -> None:
    numbers = [f"{number:06}" for number in range(1, 9409)]
    lists = [
        "frontier[00001-09408]",
        f"nid[{','.join(numbers)}]",
        f"nid[{','.join(f'{first}-{last}' for first, last in zip(numbers[::3], numbers[1::3]))}]",
        ",".join(f"nid{number}" for number in numbers),
    ]
    assert ask_us(lists) == ["frontier00001", "nid000001", "nid000001", "nid000001"]
    assert ask_slurm(lists[:1], slurm_conf) == ask_us(lists[:1])
