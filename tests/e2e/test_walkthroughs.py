"""Walk-throughs of docs/how-to on real Slurm, in real containers; GPUs, profilers and programs are stand-ins.

All jobs are submitted at once, each from its own directory. Their scripts are the golden files, except that the staging
directory and the data set are those of the virtual machine. Not run: 64 nodes (stage-1, stage-2), torchrun (see
test_distributed.py), and the smoke test (lumi-1), which needs GPUs.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.conftest import MEET, OF_LUMIS_PAGE, Jobs, equal_shares, must, places
from tests.walkthroughs import COMMANDS, Command

pytestmark = pytest.mark.stack

STAND_IN = """# Stands for a training program: no torch, no GPU, but the ranks do meet.
import runpy, sys
sys.argv[1:] = ["0"]
runpy.run_path("meet.py")
"""
OLCFS = """# Stands for OLCF's program, which overwrites what it finds with what it is told, and demands to be told.
import argparse, os, runpy, sys
parser = argparse.ArgumentParser()
parser.add_argument("total_epochs", type=int)
parser.add_argument("save_every", type=int)
parser.add_argument("--master_addr", required=True)
parser.add_argument("--master_port", required=True)
told = parser.parse_args()
os.environ.update(MASTER_ADDR=told.master_addr, MASTER_PORT=told.master_port)
sys.argv[1:] = ["0"]
runpy.run_path("meet.py")
"""
BENCHMARK = "#!/bin/bash\n# Stands for nccl-tests.\necho rank $SLURM_PROCID of $SLURM_NTASKS: $*\n"
ROCPROF = """#!/bin/bash
# Stands for rocprof.
echo $RANK: $* >profiled
shift 2
exec "$@"
"""
ENTRY = """#!/bin/sh
# Stands for the entry script of HPE's images, which apptainer runs for `run` and not for `exec`.
echo entered
exec "$@"
"""
DATA = "/flash/project_465000001/data-sets/data-resnet-small.tar"

SHAPES = {
    "lumi-5.sh": (2, 8),
    "lumi-8.sh": (1, 8),
    "frontier-3.sh": (2, 8),
    "cray-ex-2.sh": (2, 4),
}
"""The number of nodes and of ranks per node in each script.

The other scripts differ from one of these in the arguments of the program alone; tests/unit/jobs compares them with
golden files, and lints them.
"""

BY_NAME = {command.name: command for command in COMMANDS}


def program_of(command: Command) -> str:
    """Return the name of the file that a command of a page runs."""
    words = " ".join(command.words[command.words.index("--") + 1 :]).split()
    found = next(word for word in words if word.endswith((".py", "_perf")))
    return found.removeprefix("/workdir/")


def submit(jobs: Jobs, command: Command, directory: Path) -> tuple[Jobs, str]:
    """Submit a golden file from a directory with its program."""
    mine = replace(jobs, directory=directory)
    program = directory / program_of(command)
    program.parent.mkdir(parents=True, exist_ok=True)
    stand_in = OLCFS if "--master_port" in str(command) else STAND_IN
    program.write_text(stand_in if program.suffix == ".py" else BENCHMARK)
    program.chmod(0o755)
    shutil.copy(MEET, directory)
    (directory / "benchmark" / "reports").mkdir(parents=True, exist_ok=True)
    must(mine("tar", "-cf", "set.tar", "meet.py"))
    script = command.golden.read_text()
    script = re.sub(r'(stage-(?:image|data)) ("[^"]*"|[^ )]+)', rf"\1 {mine.local}", script).replace(
        DATA, f"{directory}/set.tar"
    )
    (directory / "job.sh").write_text(script)
    bin_directory = directory / "bin"
    bin_directory.mkdir()
    (bin_directory / "rocprof").write_text(ROCPROF)
    (bin_directory / "rocprof").chmod(0o755)
    (directory / "entry").write_text(ENTRY)
    (directory / "entry").chmod(0o755)
    (directory / "modules").mkdir()
    (directory / "modules" / "singularity.lua").write_text("-- Stands for MareNostrum's.\n")
    modules = f"{directory}/modules:{jobs.modules}"
    env = {
        "MODULEPATH": modules,
        "APPTAINER_BIND": f"{directory}/entry:/.singularity.d/runscript",
        "APPTAINERENV_PREPEND_PATH": str(bin_directory),
        "SINGULARITYENV_PREPEND_PATH": str(bin_directory),
    }
    number = must(mine("sbatch", "--parsable", "--output=page-%j.out", "job.sh", **env)).stdout.strip()
    return mine, number


@pytest.fixture(scope="module")
def ran(tiny_installed: Jobs, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, tuple[Jobs, str]]:
    """Submit all scripts and wait for them; return the directory and the job ID of each."""
    (settings,) = tiny_installed.modules.parent.parent.glob("software/PyTorch/*/runscripts/lib/settings.bash")
    settings.chmod(0o644)
    settings.write_text(settings.read_text().replace("_has_entry= ", "_has_entry=1 "))  # ENTRY, bound over the image's
    started = {
        name: submit(tiny_installed, BY_NAME[name], tmp_path_factory.mktemp(name.partition(".")[0]))
        for name in (*SHAPES, "cray-ex-1.sh")
    }
    tiny_installed.wait(*(number for _, number in started.values()))
    return started


@pytest.mark.parametrize("name", SHAPES)
def test_the_ranks_of_a_page_meet(ran: Mapping[str, tuple[Jobs, str]], name: str) -> None:
    jobs, number = ran[name]
    ranks = jobs.ranks(number)
    nodes, each = SHAPES[name]
    hosts = sorted({rank["host"] for rank in ranks})
    named = {host: f"nid{number:03}" for number, host in enumerate(hosts, 1)}  # Slurm may choose any of the four nodes
    assert places([{**rank, "host": named[rank["host"]]} for rank in ranks]) == equal_shares(nodes, each)
    assert {rank["total"] for rank in ranks} == {sum(range(nodes * each))}
    assert jobs.left_behind() == []


def test_only_images_of_hpe_are_entered_by_their_own_script(ran: Mapping[str, tuple[Jobs, str]]) -> None:
    entered = {name: jobs.output(number).count("entered\n") for name, (jobs, number) in ran.items()}
    assert {name: count for name, count in entered.items() if count} == {
        name: 8 for name in ran if name.startswith("cray-ex")
    }


def test_one_rank_is_profiled(ran: Mapping[str, tuple[Jobs, str]]) -> None:
    jobs, _ = ran["lumi-5.sh"]
    said = (jobs.directory / "profiled").read_text()
    assert said.startswith("14: --hip-trace --stats python -u /workdir/GPT-neo-IMDB-finetuning-mp.py")


def test_nccl_tests_get_their_arguments_on_every_rank(ran: Mapping[str, tuple[Jobs, str]]) -> None:
    jobs, number = ran["cray-ex-1.sh"]
    lines = sorted(line for line in jobs.output(number).splitlines() if line.startswith("rank "))
    assert lines == [f"rank {rank} of 8: -b 1M -e 8G -f 2 -n 100" for rank in range(8)]


MNIST = """#!/bin/bash -e
#SBATCH --nodes=4
#SBATCH --gpus-per-node=8
#SBATCH --tasks-per-node=8
#SBATCH --cpus-per-task=7
#SBATCH --output="output_%x_%j.txt"
#SBATCH --partition=standard-g
#SBATCH --mem=480G
#SBATCH --time=00:10:00
#SBATCH --account=project_<your_project_id>

module load LUMI
module load wget
module load {module}

wget https://raw.githubusercontent.com/Lumi-supercomputer/lumi-reframe-tests/main/checks/containers/ML_containers/src/pytorch/mnist/mnist_DDP.py
mkdir -p model ; cd model
wget https://github.com/Lumi-supercomputer/lumi-reframe-tests/raw/main/checks/containers/ML_containers/src/pytorch/mnist/model/model_gpu.dat
cd ..

export SINGULARITYENV_NCCL_DEBUG=INFO
export SINGULARITYENV_NCCL_DEBUG_SUBSYS=INIT,COLL

c=fe
MYMASKS="0x${{c}}000000000000,0x${{c}}00000000000000,0x${{c}}0000,0x${{c}}000000,0x${{c}},0x${{c}}00,0x${{c}}00000000,0x${{c}}0000000000"

srun --cpu-bind=mask_cpu:$MYMASKS \\
  singularity exec $SIFPYTORCH \\
    conda-python-distributed -u mnist_DDP.py --gpu --modelpath model
""".format(module=OF_LUMIS_PAGE.replace("-", "/", 1))
"""All commands of the batch script on LUMI's module page, without its comments; runs on two of its four nodes."""

WGET = """#!/bin/bash
# Stands for wget: the file is there already.
cp "$FILES/${1##*/}" .
"""


def test_the_batch_script_of_lumis_module_page_works_unchanged(tiny_jobs: Jobs) -> None:
    files, modules = tiny_jobs.directory / "files", tiny_jobs.directory / "modules"
    for place in (files, modules, tiny_jobs.directory / "bin"):
        place.mkdir()
    (files / "mnist_DDP.py").write_text(STAND_IN)
    (files / "model_gpu.dat").write_text("of the model\n")
    shutil.copy(MEET, tiny_jobs.directory)
    (modules / "LUMI.lua").write_text("")
    (modules / "wget.lua").write_text(f'prepend_path("PATH", "{tiny_jobs.directory}/bin")\n')
    (tiny_jobs.directory / "bin" / "wget").write_text(WGET)
    (tiny_jobs.directory / "bin" / "wget").chmod(0o755)
    (tiny_jobs.directory / "mnist.slurm").write_text(MNIST)
    env = {"MODULEPATH": f"{modules}:{tiny_jobs.modules}", "FILES": str(files)}
    number = must(tiny_jobs("sbatch", "--parsable", "--nodes=2", "mnist.slurm", **env)).stdout.strip()
    tiny_jobs.wait(number)
    (printed,) = tiny_jobs.directory.glob("output_*.txt")
    printed.rename(tiny_jobs.directory / f"mnist-{number}.out")
    ranks = tiny_jobs.ranks(number)
    assert places(ranks) == equal_shares(2, 8)
    assert {rank["total"] for rank in ranks} == {120}
