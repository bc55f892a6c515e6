"""`hpcmod bench`: reading logs, planning steps, and running them with a fake srun."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.calls import hpcmod
from tests.installations import install
from tests.programs import make_program
from tests.walkthroughs import blocks, text_of

pytestmark = pytest.mark.slow

CORPUS = Path(__file__).resolve().parents[2] / "runs" / "values" / "bandwidth" / "corpus"
HPE = CORPUS / "hpe-ai-environments.txt"


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation on a machine without GPUs, in an allocation of four nodes."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HPCMOD_SITE", "generic")
    monkeypatch.setenv("MODULEPATH", str(tmp_path / "modules/all"))
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "4")
    monkeypatch.setenv("PATH", f"{tmp_path / 'slurm'}:{os.environ['PATH']}")
    install(tmp_path, "PyTorch/2.7.1")
    root = tmp_path / "software/PyTorch/2.7.1"
    record = json.loads((root / "record.json").read_text())
    (root / "record.json").write_text(json.dumps({**record, "packages": [{"name": "torch", "version": "2"}]}))
    make_program(root / "in-environment", "#!/bin/sh\nexit 9")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def srun(top: Path, busbw: float = 90.0, *, more: str = "", status: int = 0) -> None:
    """Install a fake srun that prints a table of two sizes, for as many nodes as requested."""
    table = f"""
for word in "$@"; do case $word in --nodes=*) nodes=${{word#--nodes=}};; esac; done
echo "# Collective test starting: all_reduce_perf"
node=0
while [ $node -lt $nodes ]; do
    echo "#  Rank $node Group  0 Pid 1 on nid$node device  0 [none] CPU"; node=$((node + 1))
done
echo "# size count type redop root time algbw busbw #wrong"
echo "1024 256 float sum -1 10.0 {busbw / 4} {busbw / 2} 0"
echo "2048 512 float sum -1 10.0 {busbw / 2} {busbw} 0"
{more}
exit {status}
"""
    make_program(top / "slurm/srun", f"#!/bin/sh\n{table}")


def test_a_log_is_compared_with_the_profile(top: Path) -> None:
    done = hpcmod("bench", "--read", HPE, "--site", "cray-ex-gh200")
    assert done.exit_code == 0, done.output
    assert "all_reduce  2  8 GiB    94752.0  90.66  158.65  -  ok 100%" in done.stdout
    assert not (top / "state").exists()


def test_a_slow_log_is_exit_code_1_with_the_reason(top: Path) -> None:
    (top / "slow.log").write_text(HPE.read_text().replace("158.65", "100.00"))
    done = hpcmod("bench", "--read", "slow.log", "--site", "cray-ex-gh200", "--json")
    found = json.loads(done.stdout)
    assert done.exit_code == 1
    assert [one["level"] for one in found["findings"]] == ["fail"]
    assert [one["level"] for one in found["points"]] == ["unknown"] * 13 + ["fail"]
    assert hpcmod("bench", "--read", "slow.log", "--site", "cray-ex-gh200", "--tolerance", "40").exit_code == 0


def test_a_log_may_need_a_collective_or_a_node_count(top: Path) -> None:
    done = hpcmod("bench", "--read", CORPUS / "nccl-527.txt", "-N", "2", "--ops", "all_reduce", "--json")
    assert {(one["collective"], one["nodes"]) for one in json.loads(done.stdout)["points"]} == {("all_reduce", 2)}
    done = hpcmod("bench", "--read", CORPUS / "rccl-1490.txt", "-N", "2", "--ops", "all_reduce", "--json")
    assert {(one["collective"], one["nodes"]) for one in json.loads(done.stdout)["points"]} == {("all_gather", 4)}


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--read",), 2, "give the logs"),
        (("--read", "none.log"), 3, "no such file"),
        (("--read", "."), 2, "regular file"),
        (("--read", "/etc/passwd"), 2, "/etc/passwd: no table of nccl-tests or rccl-tests"),
        (("--read", HPE, "-N", "1,2"), 2, "one collective and node count"),
        ((), 2, "NAME of one container"),
        (("PyTorch", "-N", "1"), 2, "one rank has nothing to exchange"),
        (("PyTorch", "-N", "8"), 2, "this allocation has 4 nodes"),
        *((("PyTorch", "-N", text), 2, "expected numbers of nodes") for text in ("0", "-1", "x", "1,,2", "1-4")),
        (("PyTorch", "--ops", "x"), 2, "unknown collective"),
        (("PyTorch", "--ops", "sendrecv"), 2, "PyTorch cannot measure it"),
        (("None",), 3, "None"),
    ],
)
def test_mistakes_are_explained(top: Path, words: tuple[str, ...], code: int, said: str) -> None:
    done = hpcmod("bench", *words)
    assert (done.exit_code, said in done.stderr) == (code, True), done.output


def test_an_image_without_pytorch_is_refused(top: Path) -> None:
    root = top / "software/PyTorch/2.7.1"
    (root / "record.json").write_text(json.dumps({**json.loads((root / "record.json").read_text()), "packages": []}))
    make_program(root / "in-environment", "#!/bin/sh\necho True")
    done = hpcmod("bench", "PyTorch")
    assert (done.exit_code, "has no torch" in done.stderr) == (7, True), done.output


def test_counts_keep_their_order_and_collectives_are_measured_once(top: Path) -> None:
    done = hpcmod("bench", "PyTorch", "-N", "4,2,4", "--ops", "broadcast, all_reduce,broadcast", "--dry-run")
    assert ["--nodes=4" in line for line in done.stdout.splitlines()] == [True, False]
    assert all(line.endswith(" 3 broadcast all_reduce") for line in done.stdout.splitlines())


def test_dry_run_prints_the_steps_with_our_program_left_out(top: Path) -> None:
    done = hpcmod("bench", "PyTorch", "-N", "1,2", "--ranks-per-node", "2", "--ops", "broadcast", "--dry-run")
    first, second = done.stdout.splitlines()
    assert "--nodes=1" in first and "--nodes=2" in second
    assert second.endswith("-c BANDWIDTH_PROGRAM 1024 16777216 3 broadcast")
    assert not (top / "state").exists()
    done = hpcmod("bench", "PyTorch", "-N", "1,2", "--dry-run")
    assert "--nodes=2" in done.stdout and len(done.stdout.splitlines()) == 1
    assert "left out 1 node" in done.stderr


def test_outside_an_allocation_nodes_are_requested(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID")
    found = json.loads(hpcmod("bench", "PyTorch", "-N", "1,4,2", "-t", "10", "--dry-run", "--json").stdout)
    (command,) = found["commands"]
    assert command.startswith("salloc ") and "--nodes=4" in command and "--time=10" in command


def test_all_nodes_are_measured_compared_and_remembered(top: Path) -> None:
    srun(top)
    for _ in range(3):
        done = hpcmod("bench", "PyTorch", "--json")
        found = json.loads(done.stdout)
        assert done.exit_code == 0 and {one["nodes"] for one in found["points"]} == {4}
        assert {one["level"] for one in found["points"]} == {"unknown"}
    srun(top, busbw=50.0)
    done = hpcmod("bench", "PyTorch")
    assert done.exit_code == 1
    assert "fail all_reduce on 4 nodes, 2 KiB: 50.00 GB/s, 56% of 90 GB/s (slowest of 3 earlier runs)" in done.stdout
    assert hpcmod("bench", "PyTorch").exit_code == 1, "a slow run must not become the reference of the next"
    assert [path.name for path in (top / "state/hpcmod").iterdir()] == ["bandwidth-generic.jsonl"]


@pytest.mark.parametrize("in_the_way", ["state", "state/hpcmod/bandwidth-generic.jsonl"])
def test_results_that_cannot_be_remembered_are_printed(top: Path, in_the_way: str) -> None:
    srun(top)
    path = top / in_the_way
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("a file") if in_the_way == "state" else path.mkdir()
    done = hpcmod("bench", "PyTorch", "--json")
    assert json.loads(done.stdout)["points"] and done.exit_code == 0
    assert "not remembered for later runs" in done.stderr


def test_what_was_left_out_and_a_failing_step_are_findings(top: Path) -> None:
    srun(top, more="echo '# reduce_scatter left out: not supported'; echo dying >&2", status=3)
    done = hpcmod("bench", "PyTorch", "--json")
    found = [(one["level"], one["rule"], one["found"]) for one in json.loads(done.stdout)["findings"]]
    assert done.exit_code == 1
    assert found[:2] == [
        ("unknown", "left-out", "not measured: not supported"),
        ("fail", "step", "exit code 3:\ndying"),
    ]


def test_ranks_that_measure_nothing_or_only_themselves_are_a_failure(top: Path) -> None:
    make_program(top / "slurm/srun", "#!/bin/sh\necho 'ModuleNotFoundError: torch' >&2; exit 1")
    done = hpcmod("bench", "PyTorch")
    assert (done.exit_code, "ModuleNotFoundError: torch" in done.stderr) == (1, True)
    srun(top)
    script = (top / "slurm/srun").read_text().replace("[ $node -lt $nodes ]", "[ $node -lt 1 ]")
    make_program(top / "slurm/srun", script)
    done = hpcmod("bench", "PyTorch")
    assert (done.exit_code, "each of 4 ranks measured only itself" in done.stdout) == (1, True)


TRAININGS = {
    "out-n4-ppn4.txt": "  train_samples_per_second =      5.864",
    "out-n8-ppn4.txt": "{'train_runtime': 177.89, 'train_samples_per_second': 12.229}",
    "ddp": """Benchmark: resnet50 with batch size 32
   1 GPUs --   no ddp:  p50:  0.023s    1392/s  p75:  0.023s    1387/s  p90:  0.023s    1386/s  p95:  0.023s    1381/s
   8 GPUs --    2M/8G:  p50:  0.026s    1233/s  p75:  0.026s    1211/s  p90:  0.027s    1191/s  p95:  0.027s    1183/s
Benchmark: resnet101 with batch size 32
   8 GPUs --    2M/8G:  p50:  0.1.2s    1233/s""",
    "horovod": "Model: resnet50\nIter #9: 1784.1 img/sec per GPU\nTotal img/sec on 8 GPU(s): 14281.2 +-25.0",
}
"""As in HPE's examples (crickett-hpe/hpc-ai-envs, README.md, commit 7dd16ac)."""


def test_the_speeds_of_trainings_are_compared_by_gpu(top: Path) -> None:
    for name, text in TRAININGS.items():
        (top / name).write_text(text)
    done = hpcmod("bench", "--read", "ddp", "horovod")
    assert [" ".join(line.split()) for line in done.stdout.splitlines()] == [
        "ddp resnet50 no ddp 1 1392.00 1392.00 0.023 - 100%",
        "ddp resnet50 2M/8G 8 9864.00 1233.00 0.026 - 89%",
        "horovod resnet50 8 14281.20 1785.15 - - 100%",
    ]
    done = hpcmod(*COMMANDS[-1])  # 252.2 and 263.0 are HPE's own figures
    assert [" ".join(line.split()) for line in done.stdout.splitlines()] == [
        "out-n4-ppn4.txt - 4 5.86 1.47 - 252.2 100%",
        "out-n8-ppn4.txt - 8 12.23 1.53 - 263.0 104%",
    ]
    found = json.loads(hpcmod("bench", "--read", "out-n4-ppn4.txt", "--json").stdout)
    assert found["trainings"][0] == {"log": "out-n4-ppn4.txt", "rate": 5.864, **found["trainings"][0], "gpus": 0}
    assert "give it with -N" in hpcmod("bench", "--read", "out-n4-ppn4.txt").stderr


COMMANDS = [shlex.split(line)[1:] for block in blocks("bench", "console") for line in block.splitlines()]


def test_the_commands_of_the_page_run(top: Path) -> None:
    srun(top)
    shutil.copy(HPE, "slurm-4711.out")
    for name in ("out-n4-ppn4.txt", "out-n8-ppn4.txt"):
        Path(name).write_text(TRAININGS[name])
    assert len(COMMANDS) == 4
    for words in COMMANDS:
        done = hpcmod(*words)
        assert done.exit_code == 0, done.output
        assert done.stdout


def test_the_table_of_the_page_is_of_hpes_log(top: Path) -> None:
    printed = hpcmod("bench", "--read", HPE, "--site", "cray-ex-gh200").stdout
    rows = [row for block in blocks("bench", "text") for row in block.splitlines() if row.startswith("all_reduce")]
    # the log is of a single run, and does not say how many ranks each node has
    figures = [row.replace("+-1%", "-").replace("2x4", "2").split() for row in rows]
    assert all(row in [line.split() for line in printed.splitlines()] for row in figures) and len(rows) == 2
    shown, said = (re.findall(r"^ok +(all_reduce.*)$", text, re.MULTILINE) for text in (text_of("bench"), printed))
    assert shown == said
