"""What images/ offers to the command line and to other rooms; see hpcmod.core.registry."""

from __future__ import annotations

from hpcmod.core.registry import Room

ROOM = Room(
    "images",
    commands={
        "Images": {
            "fetch": ("cli.fetch:fetch", "Fetch an image as a verified SIF and print its path."),
            "push": ("cli.push:push_verb", "Push a SIF or an OCI image to a registry, and sign it."),
            "cache": ("cli.cache:cache", "List and clean the cache of registry downloads."),
        },
    },
)
