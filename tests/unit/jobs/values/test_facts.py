from __future__ import annotations

import pytest

from hpcmod.jobs.values.facts import JobFiles, StepFacts, parse_job_facts

CONTROL = """JobId=4711 JobName=my train
   JobState=FAILED Reason=NonZeroExitCode Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=1:0
   RunTime=00:00:03 TimeLimit=00:05:00 TimeMin=N/A
   NodeList=nid[001-002]
   NumNodes=2 NumCPUs=8 NumTasks=4 CPUs/Task=1
   WorkDir=/home/me/a b
   StdErr=/home/me/a b/x-4711.out
   StdIn=/dev/null
   StdOut=/home/me/a b/x-4711.out
"""
ACCOUNTING = """4711|my train|FAILED|1:0||nid[001-002]|00:00:03|00:05:00||/home/me/a b
4711.batch|batch|FAILED|1:0|1200K|nid001|00:00:03||1|
4711.0|python|OUT_OF_MEMORY|0:9|4096K|nid[001-002]|00:00:02||4|
"""


def test_a_job_as_scontrol_and_sacct_know_it() -> None:
    found = parse_job_facts(CONTROL, ACCOUNTING)
    assert found and (found.number, found.name, found.state, found.code) == ("4711", "my train", "FAILED", 1)
    assert (found.nodes, found.node_count, found.tasks) == ("nid[001-002]", 2, 4)
    assert (found.elapsed, found.limit) == ("00:00:03", "00:05:00")
    assert (found.files.output, found.files.directory) == ("/home/me/a b/x-4711.out", "/home/me/a b")
    assert found.steps[1] == StepFacts("4711.0", "OUT_OF_MEMORY", 0, 9, "4096K", "nid[001-002]")
    assert not found.running and not found.waiting


def test_a_job_that_only_one_of_them_knows() -> None:
    old = parse_job_facts("", ACCOUNTING)
    assert old and (old.number, old.state) == ("4711", "FAILED")
    assert old.files == JobFiles(directory="/home/me/a b")
    running = parse_job_facts("JobId=3 JobState=RUNNING Reason=None NodeList=(null)", "")
    assert running and running.running and (running.reason, running.nodes, running.steps) == ("", "", ())
    assert parse_job_facts("", "") is None and parse_job_facts("rubbish", "a|b") is None


@pytest.mark.parametrize("number", ["9" * 5000, "\u00b2"])
def test_what_no_number_can_be_is_taken_as_none(number: str) -> None:
    found = parse_job_facts(f"JobId=1 JobState=FAILED ExitCode={number}:{number} NumTasks={number}", "")
    assert found and (found.code, found.signal, found.tasks) == (0, 0, 0)
