"""What compat/ offers to the command line and to other rooms; see hpcmod.core.registry."""

from __future__ import annotations

from hpcmod.core.registry import Room

ROOM = Room(
    "compat",
    commands={
        "hpcmod site": {
            "netstack": ("cli.netstack:netstack", "Copy the host's network libraries for use in containers."),
        },
    },
)
