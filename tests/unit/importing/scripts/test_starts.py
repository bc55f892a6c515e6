from __future__ import annotations

import pytest

from hpcmod.importing.scripts.starts import ContainerStart, StartScript


def starts(text: str) -> list[ContainerStart]:
    return list(StartScript.read(f"#!/bin/bash\n{text}\n", {}).starts())


@pytest.mark.parametrize(
    ("line", "runtime", "image", "program"),
    [
        ("singularity exec --nv x.sif a b", "singularity", "x.sif", ("a", "b")),
        ("srun -n 2 /usr/bin/apptainer run x.sif", "apptainer", "x.sif", ()),
        ("docker run -it --rm -v /a:/b i:1 a", "docker", "i:1", ("a",)),
        ("srun podman-hpc run --gpu --mpi i:1 a", "podman-hpc", "i:1", ("a",)),
        ("srun shifter -V /a:/b --image i:1 a --image c", "shifter", "i:1", ("a", "--image", "c")),
        ("srun --container-image i:1 --container-writable a", "pyxis", "i:1", ("a",)),
        ("enroot start --rw -m /a:/b name a", "enroot", "name", ("a",)),
        ("mpirun -np 4 singularity exec x.sif a", "singularity", "x.sif", ("a",)),
        ("mpirun -np 4 shifter --image=i:1 a", "shifter", "i:1", ("a",)),
        ("X=1\nsrun singularity exec $X.sif ${X} $Y", "singularity", "1.sif", ("1", "$Y")),
    ],
)
def test_finds_the_command_that_starts_a_container(
    line: str, runtime: str, image: str, program: tuple[str, ...]
) -> None:
    (one,) = starts(line)
    assert (one.runtime, one.image, one.program) == (runtime, image, program)


@pytest.mark.parametrize(
    "line",
    [
        "singularity pull x",
        "docker ps",
        "echo singularity exec x.sif a",
        "shifterimg pull x",
        "docker run",
        "srun a",
        "",
    ],
)
def test_other_commands_start_none(line: str) -> None:
    assert starts(line) == []


def test_values_of_variables_that_refer_to_themselves_end() -> None:
    assert starts("A=$A$A\nsingularity exec $A x")[0].image.startswith("$A")
