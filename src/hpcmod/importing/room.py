"""What importing/ offers to the command line and to other rooms; see hpcmod.core.registry."""

from __future__ import annotations

from hpcmod.core.registry import Room

ROOM = Room(
    "importing",
    commands={
        "Recipes": {
            "import": ("cli.importing:importing", "Make easyconfigs from recipes of other tools, or a SIF."),
        },
    },
)
