"""Rules for batch scripts, tested with the corpus in tests/jobs: scripts with one fault each, and correct scripts."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcmod.check.jobs.lint import RULES, lint_job
from hpcmod.machine import load_site
from hpcmod.model.site import Site

JOBS = Path(__file__).resolve().parents[3] / "jobs"
RIGHT = sorted(JOBS.glob("right/*.sh"))
WRONG = sorted(JOBS.glob("wrong/*.sh"))
DESK = JOBS / "desk"
"""Scripts as users send them to a support desk. Only those in `seen` were known when the rules were written."""
DESK_FAULTS = [line.split("\t") for line in (DESK / "faults.tsv").read_text().splitlines()[1:]]
"""Part, script, machine, line and rule of the single fault in each wrong script."""
DESK_RIGHT = sorted(DESK.glob("*/right/*.sh"))

NOT_LUMI = {
    "cpus-per-gpu": "marenostrum5",
    "missing-option": "marenostrum5",
    "no-gpu-flag": "marenostrum5",
    "refused-launcher": "frontier",
    "srun-flags": "cray-ex-gh200",
}
"""The machine of each wrong script that is not for LUMI."""

LINES = {
    "bind-replaced": 10, "misplaced-equals": 6, "misplaced-equals--letter": 6, "misspelt-directive--indented": 6,
    "broken-continuation": 11, "broken-continuation--comment": 12, "misplaced-equals--one-dash": 6,
    "clean-environment": 11, "cpus-per-gpu": 7, "device-of-rank": 11, "directive-variable": 7, "early-expansion": 11,
    "export-none": 5, "export-none--of-a-step": 11, "late-directive": 10, "launcher-tasks": 11, "library-path": 10,
    "line-end": 1, "literal-sif": 11, "mask-count": 11, "master-addr": 10, "master-addr--each-node": 11,
    "master-addr--list": 10, "missing-option": 1, "misspelt-directive": 6, "no-container": 11, "no-gpu-flag": 14,
    "no-gpus": 10, "no-layout": 9, "no-module": 9, "no-module--too-late": 9, "no-shebang": 1, "no-srun": 11,
    "no-wait": 11, "not-an-image": 11, "other-module": 11, "refused-launcher": 15, "shared-cache": 10, "srun-cpus": 12,
    "srun-flags": 10, "step-too-big": 11, "too-many-gpus": 4, "too-many-gpus--no-gpus": 4, "wrong-gpu-flag": 11,
}  # fmt: skip
"""Line of the fault in each wrong script."""


@lru_cache
def site(name: str) -> Site:
    return load_site(name, {})


def with_slurm(name: str, release: str) -> Site:
    return replace(site(name), job=site(name).job._replace(slurm=release))


def read(path: Path) -> str:
    return path.read_bytes().decode()


@pytest.mark.parametrize("path", WRONG, ids=lambda path: path.stem)
def test_a_script_with_one_fault_gives_that_one(path: Path) -> None:
    rule = path.stem.partition("--")[0]
    found = lint_job(read(path), with_slurm(NOT_LUMI.get(rule, "lumi"), "22.05" if rule == "srun-cpus" else ""))
    assert [(fault.rule, fault.line) for fault in found] == [(rule, LINES[path.stem])]
    assert all(fault.found and fault.cure for fault in found)


@pytest.mark.parametrize("path", RIGHT, ids=lambda path: path.stem)
def test_a_right_script_gives_none(path: Path) -> None:
    assert lint_job(read(path), site(path.stem.partition("--")[0])) == ()


@pytest.mark.parametrize("part, name, machine, line, rule, fault", DESK_FAULTS, ids=[row[1] for row in DESK_FAULTS])
@pytest.mark.slow
def test_a_script_from_the_desk_gives_its_one_fault(
    part: str, name: str, machine: str, line: str, rule: str, fault: str
) -> None:
    found = lint_job(read(DESK / part / "wrong" / f"{name}.sh"), site(machine))
    assert [(one.rule, one.line) for one in found] == [(rule, int(line))], fault
    assert all(one.found and one.cure for one in found)


@pytest.mark.parametrize("path", DESK_RIGHT, ids=lambda path: path.stem)
@pytest.mark.slow
def test_a_right_script_from_the_desk_gives_none(path: Path) -> None:
    assert lint_job(read(path), site(path.stem.partition("--")[0])) == ()


def test_every_script_of_the_desk_is_listed() -> None:
    listed = {f"{part}/{name}" for part, name, *_ in DESK_FAULTS}
    assert listed == {f"{path.parts[-3]}/{path.stem}" for path in DESK.glob("*/wrong/*.sh")}


def test_each_rule_has_a_script_that_breaks_it() -> None:
    scripts = {path.stem.partition("--")[0] for path in WRONG} | {row[4] for row in DESK_FAULTS}
    lines = {rule for *_, rules in (*COMMAND_LINES, *DIRECTIVES) for rule in rules} | {"unset-image"}
    assert set(RULES) == scripts | lines


HEAD = (
    "#!/bin/bash\n#SBATCH -A p\n#SBATCH -N 2 --ntasks-per-node 8 --gpus-per-node mi250:8 -p standard-g\nmodule load X\n"
)


def rules_of(line: str, *, machine: str = "lumi") -> list[str]:
    return [fault.rule for fault in lint_job(HEAD + line, site(machine))]


RUN = "srun singularity exec $SIF "
COMMAND_LINES = [
    (RUN + "cd /scratch && ls\n", ["shell-in-container"]),
    (RUN + 'bash -c "$WITH_CONDA; conda-python-distributed t.py"\n', ["container-variable"]),
    (RUN + "bash -c conda-python-distributed t.py --lr 1\n", ["unquoted-shell"]),
    ("for i in 1 2; do\n  " + RUN + "ls\n", ["syntax"]),
    ("export PATH=/opt/tool/bin\n", ["path-replaced"]),
    ("export CACHE=/tmp/x-$SLURM_LOCALID\n", ["rank-of-batch"]),
    ("python train.py\n", ["nothing-starts-ranks"]),
    ("export SINGULARITY_ENV_X=1\n", ["unknown-setting"]),
    ("export HSA_OVERRIDE_GFX_VERSION=10.3.0\n", ["harmful-setting"]),
]
"""Lines with one fault each, for rules that no script of the corpus violates."""
DIRECTIVES = [
    ("--array=0-9", "A=(1 2 3)\necho ${A[$SLURM_ARRAY_TASK_ID]}\n", ["array-list"]),
    ("--gpus-per-node=2 -p standard-g", "", ["billed-gpus"]),
    ("--ntasks-per-node=8 --cpus-per-task=7 --mem-per-cpu=10G", "", ["memory-of-parts"]),
    ("--time=3h", "", ["bad-value"]),
    ("--output=/tmp/x.log", "", ["log-directory"]),
    ("--output=~/x.log", "", ["directive-variable"]),
    ("--export=FOO=1", "srun hostname\n", ["export-none"]),
    ("--signal=USR1@5", "", ["signal"]),
    ("--gpus-per-node=gpu:8", "", ["bad-value"]),
    ("\u2013-time=10", "", ["typeset-characters"]),
]


@pytest.mark.parametrize(("line", "rules"), COMMAND_LINES)
def test_a_command_that_another_shell_reads(line: str, rules: list[str]) -> None:
    assert rules_of(line) == rules


@pytest.mark.parametrize(("asked", "line", "rules"), DIRECTIVES)
def test_a_directive_that_means_something_else(asked: str, line: str, rules: list[str]) -> None:
    script = f"#!/bin/bash\n#SBATCH -A p -N 1\n#SBATCH {asked}\n{line}"
    assert [fault.rule for fault in lint_job(script, site("lumi"))] == rules


def test_an_image_that_is_set_nowhere() -> None:
    script = "#!/bin/bash\n#SBATCH -A p\nsrun singularity exec $CONTAINER ls\n"
    assert [fault.rule for fault in lint_job(script, site("lumi"))] == ["unset-image"]


@pytest.mark.parametrize(
    ("line", "rules"),
    [
        pytest.param("srun singularity exec $SIF conda-python-distributed t.py\n", [], id="plain"),
        pytest.param("srun conda-python-distributed t.py\n", ["no-container"], id="a run script on the host"),
        pytest.param(
            "srun singularity exec $SIF sh -c 'conda-python-distributed t.py'\n", [], id="a run script inside"
        ),
        pytest.param("echo $((1 << N))\n#SBATCH -N 2\n", ["late-directive"], id="a shift is no here-document"),
        pytest.param("MASTER_ADDR=$(hostname) srun python t.py\n", [], id="first node's own name"),
        pytest.param("srun env MASTER_ADDR=$(hostname) python t.py\n", ["master-addr"], id="env in step"),
        pytest.param("# export MASTER_PORT=29500\n", [], id="a comment"),
        pytest.param("cat <<EOF >x\nexport MASTER_ADDR=localhost\nEOF\n", [], id="here-document"),
        pytest.param("export MASTER_PORT=$((10000 + SLURM_JOB_ID % 9999))\n", [], id="a port of the job"),
        pytest.param("python plot.py\n", [], id="the host's own python"),
        pytest.param("srun -n1 -N1 singularity exec $SIF pip list\n", [], id="a smaller step"),
        pytest.param(
            "srun -N4 singularity exec $SIF conda-python-distributed t.py\n", ["step-too-big"], id="bigger step"
        ),
        pytest.param("srun echo $SLURM_PROCID\n", ["early-expansion"], id="bare"),
        pytest.param('srun echo "$SLURM_PROCID"\n', ["early-expansion"], id="double quotes"),
        pytest.param("srun bash -c 'echo $SLURM_PROCID'\n", [], id="single quotes"),
        pytest.param('srun bash -c "echo \\$SLURM_PROCID"\n', [], id="escaped"),
        pytest.param("srun bash -c 'export RANK=$SLURM_PROCID; exec python t.py'\n", [], id="rank in the step"),
        pytest.param("sleep 10\n", [], id="sleep in the batch script"),
        pytest.param("echo a # b \\\n  c\n", ["broken-continuation"], id="a comment with a backslash"),
        pytest.param("# echo a \\\n# b\n", [], id="a command that is a comment"),
        pytest.param("echo 'a # b \\\n  c'\n", [], id="a number sign in quotes"),
        pytest.param("for i in 1 2; do srun -N1 -n1 a & done; wait\n", [], id="loop of steps, awaited"),
        pytest.param("for i in 1 2; do srun -N1 -n1 a & done\n", ["no-wait"], id="loop of steps, not awaited"),
        pytest.param(
            "srun singularity exec -e $SIF conda-python-distributed t.py\n",
            ["clean-environment"],
            id="letter of --cleanenv",
        ),
        pytest.param("srun singularity exec -B /opt/cray:/x $SIF ./a\n", [], id="another place for a bind"),
        pytest.param('export APPTAINER_BINDPATH="$APPTAINER_BINDPATH,/data"\n', [], id="bind added"),
        pytest.param(
            "srun --cpu-bind=mask_cpu:$(hpcmod masks) singularity exec $SIF pip list\n", [], id="masks not known"
        ),
        pytest.param("srun -N1 -n1 -c8 bash -c 'while :; do date; sleep 9; done' & wait\n", [], id="a monitor step"),
        pytest.param("bash -c 'while :; do date; sleep 9; done' &\n", [], id="a monitor on the first node"),
        pytest.param("srun bash -c 'sleep 0.$SLURM_LOCALID; ls'\n", [], id="ranks kept apart"),
        pytest.param('srun bash -c "export RANK=\\$SLURM_PROCID; exec ./a"\n', [], id="rank in the step, escaped"),
        pytest.param('srun bash -c "export RANK=$SLURM_PROCID; exec ./a"\n', ["early-expansion"], id="too early"),
        pytest.param('srun bash -c "export MASTER_ADDR=$(hostname); ./a"\n', [], id="first node's name in the step"),
        pytest.param(
            'srun bash -c "export MASTER_ADDR=\\$(hostname); ./a"\n', ["master-addr"], id="each node's name, escaped"
        ),
        pytest.param("export ROCR_VISIBLE_DEVICES=0,1,2,3\n", [], id="some of the devices"),
        pytest.param("ROCR_VISIBLE_DEVICES=0 srun --ntasks-per-node=1 ./a\n", [], id="one device for one task"),
        pytest.param("srun -n64 -c7 ./a\n", [], id="CPUs of the job are not known"),
        pytest.param("singularity exec $SIF python t.py\nsrun ./a\n", [], id="once, before the ranks"),
        pytest.param(
            "singularity exec $SIF python t.py\ntimeout 30 srun ./a\n", [], id="before ranks behind a program"
        ),
        pytest.param("singularity exec $SIF python t.py\n", ["no-srun"], id="python alone"),
        pytest.param("srun ./a\nsingularity exec $SIF torchrun t.py\n", ["no-srun"], id="distributed beside a step"),
        pytest.param("srun ./a --tracker tcp://nid001:5555\n", [], id="a port of a service"),
        pytest.param("export TRITON_CACHE_DIR=$TMPDIR/triton\n", [], id="cache of the job"),
        pytest.param("export LD_LIBRARY_PATH=/x\n./tool\nsrun singularity exec $SIF ls\n", [], id="library of a tool"),
        pytest.param("LD_LIBRARY_PATH=/x singularity exec $SIF ls\n", ["library-path"], id="library of a container"),
        pytest.param(
            "module load AI/TensorFlow/2\nsrun singularity exec $SIFTENSORFLOW ls\n", [], id="a path's middle"
        ),
        pytest.param("module load $MINE\nsrun singularity exec $SIFTENSORFLOW ls\n", [], id="modules not known"),
        pytest.param(
            "module restore mine\nsrun singularity exec $SIFTENSORFLOW ls\n", [], id="modules of a collection"
        ),
        pytest.param(
            "module unload TensorFlow\nsrun singularity exec $SIFTENSORFLOW ls\n", ["other-module"], id="unload"
        ),
        pytest.param("srun sh -c 'torchrun t.py'\n", ["launcher-tasks"], id="torchrun in a shell"),
        pytest.param("srun --export=NIL ./a\n", ["export-none"], id="no environment for a step"),
        pytest.param("srun -N1 ./a &\nsrun -N1 ./b &\nwait\n", [], id="steps on a node each"),
        pytest.param("srun --exact --gpus=8 ./a &\nsrun --exact --gpus=8 ./b &\nwait\n", [], id="steps with parts"),
        pytest.param("srun ./server &\nsrun --overlap ./client\n", [], id="a client beside a server"),
        pytest.param("python t.py\n./launch.sh\n", [], id="a program that may start steps"),
        pytest.param("python a.py\nsrun ./b\n", [], id="once, and then the ranks"),
        pytest.param("export MASTER_PORT=$((SLURM_JOB_ID % 65536))\n", ["changing-port"], id="a port below 1024"),
        pytest.param("srun ./a > out.$SLURM_PROCID\n", ["early-expansion"], id="one file for all"),
        pytest.param("srun bash -c './a > out.$SLURM_PROCID'\n", [], id="a file for each"),
        pytest.param("srun -n8 -N1 -c8 ./a\n", ["too-many-cpus"], id="reserved cores"),
        pytest.param(
            "srun singularity exec docker-archive:x.tar conda-python-simple -c 1\n",
            ["registry-image", "required-binds"],
            id="an archive",
        ),
        pytest.param("srun ./a \u2013-lr 1\n", ["typeset-characters"], id="a dash of a text processor"),
    ],
)
def test_one_line_more(line: str, rules: list[str]) -> None:
    assert rules_of(line) == rules


@pytest.mark.parametrize(
    ("asked", "step", "rules"),
    [
        pytest.param("-N1 -n1 -c56", "srun -n8 -c7 ./a", [], id="CPUs of one task for eight"),
        pytest.param("-N1 -n8 -c7", "srun -n16 -c7 ./a", [], id="CPUs that a whole node has"),
        pytest.param("-N1 -n8 -c7", "srun -n32 -c7 ./a", ["step-too-big"], id="CPUs that no node has"),
        pytest.param("-N2-4 -n8 -c7", "srun -N4 -n8 -c7 ./a", [], id="nodes of a range"),
        pytest.param("-N2-4 -n8 -c7", "srun -N5 -n8 -c7 ./a", ["step-too-big"], id="nodes beyond a range"),
        pytest.param("-n16 -c7 -G16", "srun -c7 ./a", [], id="GPUs of nodes that Slurm counts"),
        pytest.param("-N1 -n8 -c7 -G16", "srun -c7 ./a", ["too-many-gpus"], id="GPUs of one node"),
        pytest.param("-N1 -n8 -c7", "srun -n1 mkdir -p x", [], id="a tool needs no CPUs"),
        pytest.param("-N1 -n8 -c7", "srun ./a", ["srun-cpus"], id="a program needs its CPUs"),
        pytest.param("-N1 -n2", "srun --cpu-bind=mask_cpu:2,4,8 ./a", [], id="more masks than ranks"),
        pytest.param("-N1 -n4", "srun --cpu-bind=mask_cpu:2,4,8 ./a", ["mask-count"], id="fewer masks than ranks"),
    ],
)
def test_a_step_that_needs_more_than_its_job_is_refused(asked: str, step: str, rules: list[str]) -> None:
    script = f"#!/bin/bash\n#SBATCH -A p\n#SBATCH -p standard-g -t 10\n#SBATCH {asked}\n{step}\n"
    assert [fault.rule for fault in lint_job(script, with_slurm("lumi", "22.05"))] == rules


@pytest.mark.parametrize(
    ("release", "found"), [("", 0), ("21.08", 0), ("22.05", 1), ("23.02", 1), ("23.11", 0), ("24.11", 0)]
)
def test_only_some_releases_of_slurm_forget_the_cpus_of_a_task(release: str, found: int) -> None:
    script = "#!/bin/bash\n#SBATCH -A p -p standard-g -N1 -n8 -c7\nsrun ./a\n"
    assert len(lint_job(script, with_slurm("lumi", release))) == found


@pytest.mark.parametrize("line", ["module load -s X", "module --force purge; ml X", "ml -t +X", "module restore"])
def test_recognizes_lines_that_load_a_module(line: str) -> None:
    script = HEAD.replace("module load X", line) + "srun singularity exec $SIF ls\n"
    assert lint_job(script, site("lumi")) == ()


@pytest.mark.parametrize(
    "line", ["module --force purge", "module list", "ml", "ml avail X", "ml -X", "module -t use X"]
)
def test_recognizes_lines_that_load_no_module(line: str) -> None:
    script = HEAD.replace("module load X", line) + "srun singularity exec $SIF ls\n"
    assert [fault.rule for fault in lint_job(script, site("lumi"))] == ["no-module"]


def test_a_missing_flag_is_fine_where_the_profile_sets_it() -> None:
    amd = replace(site("lumi"), runtime_flags=("--rocm",))
    assert lint_job(HEAD + "srun singularity exec $SIF ls\n", amd) == ()


def test_a_key_required_by_one_machine_is_missing_only_there() -> None:
    script = HEAD.replace("-A p ", "")
    assert "missing-option" in [fault.rule for fault in lint_job(script, site("marenostrum5"))]
    assert "missing-option" not in [fault.rule for fault in lint_job(script, Site("ours"))]


@given(st.text(alphabet="#SBATCH-=n \t\n\\\"'`$(){}<>|&;srunsingularity exec$SIF/.:,0129"))
@pytest.mark.slow
def test_no_text_makes_it_fail(text: str) -> None:
    for script, profile in ((text, "lumi"), (f"#!/bin/bash\n{text}", "marenostrum5")):
        lines = [fault.line for fault in lint_job(script, site(profile))]
        assert all(0 <= line <= len(script.splitlines()) + 1 for line in lines)


def test_deep_nesting_does_not_make_it_fail() -> None:
    found = lint_job("#!/bin/bash\n" + 'a "$(' * 5000, site("lumi"))
    assert ("syntax", 1) in [(fault.rule, fault.line) for fault in found]
