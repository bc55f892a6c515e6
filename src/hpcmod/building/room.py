"""What building/ offers to the command line and to other rooms; see hpcmod.core.registry."""

from __future__ import annotations

from hpcmod.core.registry import Room

ROOM = Room(
    "building",
    commands={
        "Images": {
            "build": ("cli.build:build", "Build an image with MPI, libfabric and the network plugin."),
        },
    },
    schemas=("cli.schema:recipe_schema",),
    words={
        "create": ("build an image", "hpcmod build {RECIPE}"),
    },
)
