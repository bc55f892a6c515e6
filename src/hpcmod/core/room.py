"""What core/ offers to the command line and to other rooms; see hpcmod.core.registry."""

from __future__ import annotations

from hpcmod.core.registry import Room

ROOM = Room(
    "core",
    commands={
        "hpcmod site": {
            "completion": ("cli.completion:completion", "Print the completion script for a shell."),
        },
    },
    words={
        "version": ("print the version", "hpcmod --version"),
    },
)
