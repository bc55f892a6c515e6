"""What lint/ offers to the command line and to other rooms; see hpcmod.core.registry."""

from __future__ import annotations

from hpcmod.core.registry import Room

ROOM = Room(
    "lint",
    commands={
        "Recipes": {
            "lint": ("cli.lint:lint", "Find mistakes in batch scripts and easyconfigs."),
        },
    },
)
