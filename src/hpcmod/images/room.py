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
    words={
        "pull": ("fetch an image as a SIF", "hpcmod fetch {IMAGE}"),
        "download": ("fetch an image as a SIF", "hpcmod fetch {IMAGE}"),
        "convert": ("make a SIF of any image", "hpcmod fetch {IMAGE}"),
        "login": ("log in to a registry", "podman login HOST, or: apptainer registry login docker://HOST"),
        "clean": ("clean the cache of downloads", "hpcmod cache gc"),
        "prune": ("clean the cache of downloads", "hpcmod cache gc"),
        "cache clean": ("clean the cache of downloads", "hpcmod cache gc"),
        "cache prune": ("clean the cache of downloads", "hpcmod cache gc"),
    },
)
