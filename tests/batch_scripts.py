"""Batch scripts that start a container by hand: at least one for each row of docs/reference/import-scripts.md."""

from __future__ import annotations

from pathlib import Path

from tests.foreign_recipes import write_tree

IMAGE = "docker://quay.io/org/tool:1.2"


def script(
    *,
    directives: str = "",
    lines: str = "",
    srun: str = "",
    options: str = "",
    program: str = "prog",
    image: str = IMAGE,
) -> str:
    """Return a script with one `srun singularity exec` step."""
    given = "".join(f"#SBATCH {line}\n" for line in directives.splitlines())
    return f"#!/bin/bash\n{given}{lines}\nsrun {srun} singularity exec {options} {image} {program}\n"


def step(line: str, *, directives: str = "", lines: str = "") -> str:
    """Return a script whose only step is the given line."""
    given = "".join(f"#SBATCH {one}\n" for one in directives.splitlines())
    return f"#!/bin/bash\n{given}{lines}\n{line}\n"


PLAIN = script()

IMAGES = {
    "`singularity exec docker://...`, `apptainer exec docker://...`, `oras://`": [
        script(),
        step("apptainer exec oras://ghcr.io/org/tool:1 prog"),
        step("srun apptainer exec docker://ubuntu:24.04 prog"),
    ],
    "`singularity exec /PATH/NAME_VERSION.sif`": [script(image="/appl/tool_1.2.sif")],
    "... a relative path": [script(image="tool_1.2.sif")],
    "... without a version, and the file is not here": [script(image="/appl/tool.sif")],
    "a file that the script makes by `singularity pull`, `singularity build`, `enroot import`": [
        step("srun singularity exec x.sif prog", lines="singularity pull x.sif docker://quay.io/org/tool:1.2"),
        step("srun singularity exec tool_1.2.sif prog", lines="apptainer pull docker://quay.io/org/tool:1.2"),
        step("srun singularity exec /d/y.sif prog", lines="singularity build /d/y.sif docker://quay.io/org/tool:1.2"),
    ],
    "`docker run`, `podman run`, `podman-hpc run`": [
        step("docker run --rm quay.io/org/tool:1.2 prog"),
        step("podman run org/tool:1.2 prog"),
        step("srun podman-hpc run org/tool:1.2 prog"),
    ],
    "... `localhost/...`": [step("podman run localhost/tool:1 prog")],
    "`shifter --image=docker:NAME:TAG`, `#SBATCH --image=`": [
        step("srun shifter --image=docker:org/tool:1.2 prog"),
        step("srun shifter prog", directives="--image=docker:org/tool:1.2"),
        step("srun shifter prog", directives="--image=quay.io/org/tool:1.2"),
    ],
    "... `id:`, `custom:`": [step("srun shifter --image=id:abc prog")],
    "`srun --container-image=`, `#SBATCH --container-image=`": [
        step("srun --container-image=nvcr.io#nvidia/pytorch:24.01-py3 prog"),
        step("srun prog", directives="--container-image=org/tool:1.2"),
    ],
    "... a squashfs file": [step("srun --container-image=/d/x.sqsh prog")],
    "`enroot start NAME`": [step("srun enroot start tool prog")],
    "`sarus run`": [step("srun sarus run org/tool:1.2 prog")],
    "`e4s-cl launch --image`": [step("e4s-cl launch --image docker://ecpe4s/e4s-cl:1.0 prog")],
    "the tag `latest`, or no tag": [script(image="docker://org/tool"), script(image="docker://org/tool:latest")],
    "a variable that the script does not set": [script(image="$NONE")],
    "`srun --environment=`": [step("srun --environment=pytorch prog")],
    "no container": [step("srun ./a.out")],
}

OPTIONS = {
    "`--bind`, `-B`, `--volume`, `-v`, `--mount type=bind`, `--container-mounts`; `SINGULARITY_BIND` in the script": [
        script(options="--bind /a:/b,/c:/d:ro -B /e"),
        step("podman run -v /a:/b:ro,z --mount type=bind,source=/c,target=/d,readonly quay.io/org/tool:1.2 prog"),
        step("srun --container-mounts=/a:/b:ro,/c:/c --container-image=org/tool:1.2 prog"),
        step("srun shifter --volume='/a:/b;/c:/d:ro' --image=docker:org/tool:1.2 prog"),
        script(lines="export SINGULARITY_BIND=/a,/b:/c:ro"),
    ],
    "... a named volume, a relative path, other flags": [
        step("podman run -v cache:/cache quay.io/org/tool:1.2 prog"),
        script(options="-B ./a:/b"),
        script(options="-B /a:/b:odd"),
    ],
    "... with a variable that the script does not set": [script(options="-B $NONE:/b")],
    "`--env NAME=VALUE`, `-e`; `SINGULARITYENV_NAME` in the script": [
        script(options="--env A=1,B='two words'"),
        step("podman run -e A=1 quay.io/org/tool:1.2 prog"),
        script(lines="export SINGULARITYENV_A=1 APPTAINERENV_B=2"),
    ],
    "... `PATH`, `HOME`, ..., and values with `$`": [
        script(options="--env PATH=/x"),
        script(options="--env 'A=$NONE'"),
    ],
    "... a name without a value, `--container-env`": [
        step("podman run -e A quay.io/org/tool:1.2 prog"),
        step("srun --container-env=A,B --container-image=quay.io#org/tool:1.2 prog"),
    ],
    "`--env-file`": [script(options="--env-file x.env")],
    "`--nv`, `--rocm`, `--gpus`, `--gpu`, `--device`": [
        script(options="--nv"),
        script(options="--rocm"),
        step("podman run --gpus all quay.io/org/tool:1.2 prog"),
        step("podman-hpc run --gpu quay.io/org/tool:1.2 prog"),
        step("podman run --device nvidia.com/gpu=all quay.io/org/tool:1.2 prog"),
    ],
    "`shifter --module=none`": [step("srun shifter --module=none --image=docker:quay.io/org/tool:1.2 prog")],
    "`shifter --module=...`, `podman-hpc --mpi`, `--cuda-mpi`, `--nccl`, `sarus --mpi`": [
        step("srun shifter --module=gpu,nccl-plugin --image=docker:quay.io/org/tool:1.2 prog"),
        step("srun shifter --image=quay.io/org/tool:1.2 prog", directives="--module=cuda-mpich"),
        step("podman-hpc run --mpi quay.io/org/tool:1.2 prog"),
        step("sarus run --mpi quay.io/org/tool:1.2 prog"),
    ],
    "`--ipc`, `--pid`, `--network`, `--shm-size`, `--ulimit`, `--publish`": [
        step("docker run --ipc=host quay.io/org/tool:1.2 prog"),
        step("docker run -p 80:80 quay.io/org/tool:1.2 prog"),
        script(options="--pid"),
    ],
    "`--user`, `--privileged`, `--fakeroot`, `--container-remap-root`": [
        step("docker run -u root quay.io/org/tool:1.2 prog"),
        script(options="--fakeroot"),
        step("srun --container-remap-root --container-image=quay.io#org/tool:1.2 prog"),
    ],
    "`--no-home`, `--no-container-mount-home`": [script(options="--no-home")],
    "`--writable`, `--writable-tmpfs`, `--rw`, `--container-writable`": [
        script(options="-w"),
        script(options="--writable-tmpfs"),
        step("srun --container-writable --container-image=quay.io#org/tool:1.2 prog"),
    ],
    "`--cleanenv`, `--contain`, `--containall`, `--clearenv`": [script(options="-e"), script(options="-C")],
    "`--workdir`, `--pwd`, `--container-workdir`": [
        script(options="--pwd /d"),
        step("docker run -w /d quay.io/org/tool:1.2 prog"),
    ],
    "`--entrypoint`, `--container-entrypoint`, `singularity run`": [
        step("docker run --entrypoint sh quay.io/org/tool:1.2 prog"),
        step("singularity run docker://quay.io/org/tool:1.2 prog"),
    ],
    "`--overlay`, `--home`, `--scratch`, `--container-save`, `--container-name`": [
        script(options="--overlay x.img"),
        script(options="-H /x"),
        step("srun --container-name=x --container-image=quay.io#org/tool:1.2 prog"),
    ],
    "`--detach`, `--memory`, `--cpus`": [step("docker run -d quay.io/org/tool:1.2 prog")],
    "`--rm`, `--interactive`, `--tty`, `--quiet`, `--init`, `--read-only`, `--name`": [
        step("docker run -it --rm --init --read-only --name x quay.io/org/tool:1.2 prog")
    ],
    "other options": [script(options="--security seccomp"), step("docker run --odd=1 quay.io/org/tool:1.2 prog")],
}

JOB = {
    "`nodes`, `ntasks-per-node`, `cpus-per-task`, `mpi` of `#SBATCH` or `srun`": [
        script(directives="-N 2 --ntasks-per-node=4 -c 7"),
        script(srun="-N 2 --ntasks-per-node 4 --mpi=pmix"),
    ],
    "`ntasks` without `ntasks-per-node`; `mpirun -n`": [script(directives="-n 8"), script(srun="-n8")],
    "`gres=gpu:N`, `gpus-per-node`": [script(directives="--gres=gpu:a100:4"), script(directives="--gpus-per-node=4")],
    "`account`, `qos`, `time`, `partition`, `constraint`, `reservation`": [
        script(directives="-A a -q b\n-t 01:00:00\n--partition c -C 'd&e'\n--reservation=f")
    ],
    "`job-name`, `output`, `error`, `chdir`, `array`, `dependency`, `network`": [
        script(directives="-J a -o b.out -e c.err -D /d -a 0-3%2 -d afterok:1 --network=single_node_vni")
    ],
    "other options of `#SBATCH`": [script(directives="--mem=0 --mail-type=END"), script(directives="--comment=x")],
    "a range of nodes, a value with a blank or `$`": [script(directives="-N 2-4"), script(directives="-J 'a b'")],
    "`cpu-bind`, `gpu-bind`, `mem-bind`, `distribution`, `hint`, `gpus`, `gpus-per-task`, `exclusive`": [
        script(srun="--cpu-bind=mask_cpu:0xfe"),
        script(directives="--gpus=8"),
        script(directives="--exclusive"),
        script(srun="-m block:cyclic"),
    ],
    "`export`": [script(srun="--export=ALL,A=1")],
    "`requeue`, `signal`": [script(directives="--requeue"), script(directives="--signal=B:USR1@120")],
    "`multi-prog`, `wrap`, `pty`": [script(srun="--pty")],
    "other options of `srun`": [script(srun="--relative=1")],
    "`kill-on-bad-exit`, `label`, `unbuffered`, `overlap`": [script(srun="--label -u --overlap --kill-on-bad-exit=1")],
    "an `#SBATCH` line that sbatch does not read": [script(lines="set -e\n#SBATCH -N 2\n")],
}

REST = {
    "the program of a step": [script(program="python train.py --lr '0.1 x'")],
    "... of further steps with the same image": [script(program=f"a\nsrun singularity exec {IMAGE} b")],
    "... with other nodes or ranks than the first": [script(program=f"a\nsrun -n 1 singularity exec {IMAGE} b")],
    "... `torchrun`, `deepspeed`, `accelerate`": [script(program="torchrun train.py")],
    "... their options": [script(program="torchrun --nproc_per_node 8 train.py --x")],
    "... variables that the script does not set, and commands in it": [
        script(program="prog $SLURM_JOB_ID"),
        script(program="prog $(hostname)"),
    ],
    "... of several lines": [script(program="bash -c 'a\nb'")],
    "words between `srun` and the container: `numactl`, `select_gpu`": [
        step(f"srun ./select_gpu singularity exec {IMAGE} prog"),
        step(f"srun numactl -N 0 singularity exec {IMAGE} prog"),
    ],
    "output of a step to a file (`>`), to another command": [
        script(program="prog > out.txt"),
        script(program="prog 2>&1 | tee log"),
    ],
    "a step in the background": [script(program="prog &")],
    "`if`, `for` and other conditions and loops": [
        step(f"for i in 1 2; do\nsingularity exec {IMAGE} prog\ndone"),
        step(f"if true; then\nsrun singularity exec {IMAGE} prog\nfi"),
    ],
    "a variable that is set under a condition, or several times": [script(lines="A=1\nA=2")],
    "`export NAME=VALUE`": [script(lines="export A=1 B='it is'\nC=$A\nexport D=$C/x")],
    "... with a variable that the script does not set, or a command": [
        script(lines="export A=$NONE"),
        script(lines="export A=$(hostname)"),
    ],
    "... for the runtime or Slurm: `SINGULARITY_CACHEDIR`, `SLURM_...`": [
        script(lines="export SINGULARITY_CACHEDIR=/x")
    ],
    "`module load` of the container runtime": [script(lines="module load apptainer/1.3")],
    "other modules": [script(lines="module load rocm")],
    "`podman pull`, `shifterimg pull` and the like": [script(lines="shifterimg pull org/tool:1.2")],
    "other commands": [script(lines="cp a b"), script(lines="source x.sh"), script(lines="srun hostname")],
}


def write_scripts(root: Path) -> Path:
    """Write two scripts: one with a container and hostile text in its options, one without a container."""
    options = """-B "/data/it's:/d:ro" --env 'A=it is "quoted", %(name)s and ]]'"""
    return write_tree(root, {"job.sh": script(options=options, program="'$(touch owned)'"), "other.sh": "echo\n"})
