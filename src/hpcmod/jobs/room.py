"""What jobs/ offers to the command line and to other rooms; see hpcmod.core.registry."""

from __future__ import annotations

from hpcmod.core.registry import Room

ROOM = Room(
    "jobs",
    commands={
        "Jobs": {
            "job": ("cli.job:job", "Write a batch script for this machine and submit it."),
            "launch": ("cli.launch:launch", "Run a program in your current Slurm allocation."),
        },
    },
    examples=("text.job_example:render_job_example",),
    words={
        "submit": ("write a batch script and submit it", "hpcmod job NAME PROGRAM --submit"),
        "sbatch": ("write a batch script and submit it", "hpcmod job NAME PROGRAM --submit"),
        "srun": ("run a program in your allocation", "hpcmod launch {NAME PROGRAM}"),
    },
)
