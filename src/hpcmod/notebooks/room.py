"""What notebooks/ offers to the command line and to other rooms; see hpcmod.core.registry."""

from __future__ import annotations

from hpcmod.core.registry import Room

ROOM = Room(
    "notebooks",
    commands={
        "Notebooks and editors": {
            "kernel": ("cli.kernel:kernel_verb", "Install a Jupyter kernel that runs in a container."),
            "jupyter": ("cli.jupyter:jupyter_verb", "Run a Jupyter server of a container on a compute node."),
            "code": ("cli.code:code_verb", "Let Visual Studio Code run and debug Python in a container."),
        },
    },
    dependents=("kernels:find_dependent_kernels",),
    apps=("ondemand:make_app",),
    words={
        "notebook": ("run a Jupyter server on a compute node", "hpcmod jupyter {NAME}"),
    },
)
