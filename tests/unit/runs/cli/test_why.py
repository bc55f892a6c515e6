from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from tests.calls import hpcmod
from tests.catalogues import make_catalogue, make_record
from tests.programs import make_program
from tests.unit.runs.values.endings.test_flight import entry
from tests.unit.runs.values.endings.test_stacks import answer

KILLED = """[rank0]: Traceback (most recent call last):
[rank0]:   File "/x/train.py", line 41, in step
[rank0]: RuntimeError: [pair.cc:598] Connection closed by peer [18.25.6.30]:30872
srun: error: nid002: task 1: Killed
"""
CONTROL = """JobId=7 JobName=my train
   UserId=me(1000) GroupId=me(1000)
   JobState={state} Reason={reason} Dependency=(null)
   RunTime=00:01:00 TimeLimit=00:05:00 TimeMin=N/A ExitCode=0:{signal}
   NodeList=nid[001-002] NumNodes=2 NumCPUs=4 NumTasks=2 CPUs/Task=1
   WorkDir={directory}
   StdErr={directory}/train 7.out
   StdOut={directory}/train 7.out
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, without a scheduler on PATH."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("HPCMOD_SITE", "generic")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fake(here: Path, name: str, output: str, status: int = 0) -> None:
    (here / "bin" / f"{name}.txt").write_text(output)
    make_program(here / "bin" / name, f'#!/bin/sh\nwhile read -r l; do echo "$l"; done <"$0.txt"\nexit {status}\n')


def test_a_log_is_explained(here: Path) -> None:
    (here / "a.out").write_text(KILLED)
    done = hpcmod("why", "a.out")
    assert done.exit_code == 1
    first, second = done.stdout.splitlines()[:2]
    assert first.startswith("Cause: rank 1 on nid002: ended with signal 9 (SIGKILL): killed from outside")
    assert second == "    a.out:4: srun: error: nid002: task 1: Killed"
    assert "Then: rank 0: the connection to another rank was closed, at train.py:41 in step (a.out:3)" in done.stdout


def test_known_causes_have_a_cure_and_a_source(here: Path) -> None:
    (here / "a.out").write_text("[rank2]: torch.OutOfMemoryError: HIP out of memory. Tried to allocate 1 GiB\n")
    done = hpcmod("why", "a.out")
    assert "Cause: rank 2: the memory of a GPU is full" in done.stdout
    assert "To fix it: Use a smaller batch" in done.stdout and "See https://docs.pytorch.org/" in done.stdout


@pytest.mark.parametrize(("name", "said"), [("PyTorhc", "Did you mean PyTorch? hpcmod ls"), ("gcc", "hpcmod ls gcc")])
def test_a_misspelt_module_is_named_rightly(here: Path, name: str, said: str) -> None:
    make_catalogue(here / "catalogue", make_record("PyTorch/2.7"))
    error = "Lmod has detected the following error: The following module(s) are unknown:"
    (here / "a.out").write_text(f'{error}\n"{name}/2.7"\n\nPlease check the spelling\n')
    assert f"To fix it: {said}" in hpcmod("why", "a.out", HPCMOD_CATALOGUE=str(here / "catalogue")).stdout


def test_a_log_without_errors(here: Path) -> None:
    (here / "a.out").write_text("epoch 1\n")
    done = hpcmod("why", "a.out")
    assert (done.exit_code, done.stdout) == (0, "Nothing known was found in the output.\n")
    (here / "a.out").write_text("\n".join(KILLED.splitlines()[:3]))
    assert hpcmod("why", "a.out").stdout.startswith("No rank says why it failed")


def test_dumps_name_the_first_mismatched_collective(here: Path) -> None:
    for rank, operation in enumerate(("all_reduce", "broadcast")):
        data = {"entries": [entry(1), entry(2, operation, line=50 + rank)]}
        (here / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(data, 2))
    done = hpcmod("why", "nccl_trace_rank_0", "nccl_trace_rank_1")
    assert done.exit_code == 1
    assert done.stdout.splitlines()[:3] == [
        "Cause: the ranks of group 0 default_pg differ in collective 2:",
        "  rank 0: all_reduce [[3, 4]] Float at train.py:50 in step",
        "  rank 1: broadcast [[3, 4]] Float at train.py:51 in step",
    ]


def test_json_has_all_of_it(here: Path) -> None:
    (here / "a.out").write_text(KILLED)
    values: dict[str, Any] = json.loads(hpcmod("why", "a.out", "--json").stdout)
    assert values["failed"] and values["job"] is None and values["cause"]["ranks"] == [1]
    assert values["cause"]["file"] == "a.out" and values["cause"]["line"] == 4
    assert [one["rule"] for one in values["followed"]] == ["peer-closed"]


FAST = """\
NCCL version 2.29.2+cuda13.2
NCCL INFO NET/OFI Selected provider is cxi, fabric is cxi (found 4 nics)
NCCL INFO Using network AWS Libfabric
"""


def test_a_log_of_the_machines_network_is_fine(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HPCMOD_SITE", "lumi")
    (here / "logs").mkdir()
    (here / "logs/rank0.log").write_text(FAST)
    done = hpcmod("why", "logs")
    assert "Network: NCCL 2.29.2+cuda13.2: OFI through cxi, 4 NICs\n" in done.stdout
    assert (done.exit_code, "fail" in done.stdout) == (0, False)
    answer = json.loads(hpcmod("why", "logs", "--json").stdout)["network"]
    assert (answer["facts"]["provider"], answer["findings"]) == ({"cxi": 1}, [])


def test_a_slower_network_than_the_machines_is_a_failure(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HPCMOD_SITE", "lumi")
    no_plugin = "NCCL INFO NET/Plugin: No plugin found (librccl-net.so)\n"
    (here / "a.out").write_text(f"{no_plugin}NCCL INFO Using network Socket\n")
    done = hpcmod("why", "a.out")
    assert done.exit_code == 1
    assert done.stdout.startswith("Network: NCCL: TCP sockets\nfail network: NCCL: TCP sockets; this machine has OFI ")
    assert "Nothing known" not in done.stdout and "because no " in done.stdout and "hpcmod compat" in done.stdout
    assert json.loads(hpcmod("why", "a.out", "--json").stdout)["network"]["findings"][0]["level"] == "fail"


def test_what_is_no_output_is_an_error_with_a_cure(here: Path) -> None:
    (here / "program").write_bytes(b"\x7fELF\0\0\xfe\xff")
    (here / "empty").mkdir()
    (here / "a.out").write_bytes(b"[rank0]: HIP out of memory\0\0")
    for name, message in (("program", "not a text file"), ("empty", "no output to read"), ("/dev/null", "not read")):
        done = hpcmod("why", name)
        assert done.exit_code == 2 and message in done.output and "Give a job ID, or text files" in done.output
    assert "Cause: rank 0: the memory of a GPU is full" in hpcmod("why", "a.out", "program").stdout


def test_an_ended_job_is_explained_by_its_state_and_output(here: Path) -> None:
    fake(here, "scontrol", CONTROL.format(state="OUT_OF_MEMORY", reason="OutOfMemory", signal=9, directory=here))
    fake(here, "sacct", "", 1)
    (here / "train 7.out").write_text("started\n")
    done = hpcmod("why", "7")
    assert done.exit_code == 1
    first, second = done.stdout.splitlines()[:2]
    assert first.startswith(
        "job 7 (my train): OUT_OF_MEMORY (OutOfMemory) on nid[001-002], 00:01:00 of 00:05:00, signal 9"
    )
    assert second == "Cause: a process used more memory than the job has, and the kernel killed it"
    assert "Unknown: memory and exit code of each step: there is no accounting of this job" in done.stdout


def test_a_job_that_only_the_accounting_knows(here: Path) -> None:
    fake(here, "scontrol", "", 1)
    rows = [
        f"7|train|TIMEOUT|0:0||nid001|00:05:00|00:05:00|2|{here}",
        "7.0|python|CANCELLED|0:15|4096K|nid001|00:05:00||2|",
    ]
    fake(here, "sacct", "\n".join(rows) + "\n")
    done = hpcmod("why", "7")
    assert "job 7 (train): TIMEOUT" in done.stdout and "Seen: the job reached its time limit" in done.stdout
    assert f"Unknown: no file *7*.out in {here}" in done.stdout


def test_a_job_that_waits_has_a_reason(here: Path) -> None:
    fake(here, "scontrol", CONTROL.format(state="PENDING", reason="Priority", signal=0, directory=here))
    done = hpcmod("why", "7")
    assert done.exit_code == 0 and "PENDING (Priority)" in done.stdout and "It has not started yet." in done.stdout


@pytest.mark.parametrize(("restarts", "times"), [(1, "once"), (2, "2 times")])
def test_a_requeued_job_has_run_before(restarts: int, times: str, here: Path) -> None:
    control = CONTROL.format(state="{}", reason="BeginTime", signal=0, directory=here)
    control += f"   Requeue=1 Restarts={restarts} BatchFlag=1\n   StartTime=2026-11-28T20:00:00 EndTime=Unknown\n"
    fake(here, "scontrol", control.format("PENDING"))
    said = hpcmod("why", "7").stdout
    assert (
        f", requeued {times}\n" in said and "It ran, and waits to start again, expected at 2026-11-28T20:00:00" in said
    )
    fake(here, "scontrol", control.format("RUNNING"))
    assert f", requeued {times}\n" in hpcmod("why", "7", "--no-stacks").stdout


def test_a_running_job_without_answers_says_so(here: Path) -> None:
    fake(here, "scontrol", CONTROL.format(state="RUNNING", reason="None", signal=0, directory=here))
    done = hpcmod("why", "7")
    assert "Unknown: what the ranks do: 2 of 2 nodes gave no answer (srun cannot be started" in done.stdout
    assert "asking the nodes" not in hpcmod("why", "7", "--no-stacks").output


def test_without_py_spy_what_to_install_and_where_is_told(here: Path) -> None:
    """The `pip` of a loaded module is that of the container, and adds nothing for ranks that run already."""
    fake(here, "scontrol", CONTROL.format(state="RUNNING", reason="None", signal=0, directory=here))
    fake(here, "srun", answer("nid001", {0: None}).replace("/py-spy", "") + "\n")
    told = (
        "no py-spy. For this job, pip install it in a virtual environment outside of the container (`pip` of a loaded"
    )
    assert told in hpcmod("why", "7").stdout


def test_a_slurm_that_cannot_be_reached_is_told_in_a_line_with_what_to_do(here: Path) -> None:
    tried = "scontrol: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host"
    end = "scontrol: fatal: Could not establish a configuration source"
    make_program(here / "bin" / "scontrol", f"#!/bin/sh\necho '{tried}' >&2\necho '{end}' >&2\nexit 1\n")
    done = hpcmod("why", "7")
    assert done.exit_code == 7
    assert done.stderr.splitlines() == [
        "hpcmod: Slurm does not answer about job 7: scontrol: Could not establish a configuration source",
        "Run this where `squeue` works, such as a login node, or name its output file: hpcmod why FILE",
    ]


def test_an_unknown_job_and_two_jobs_are_errors(here: Path) -> None:
    done = hpcmod("why", "7")
    assert done.exit_code == 3 and "Slurm does not know job 7" in done.output and "hpcmod why FILE" in done.output
    assert (
        hpcmod("why", "7", "8").exit_code == 2
        and hpcmod("why").exit_code == 2
        and hpcmod("why", "no.out").exit_code == 3
    )
