"""What runs/ offers to the command line and to other rooms; see hpcmod.core.registry."""

from __future__ import annotations

from hpcmod.core.registry import Room

ROOM = Room(
    "runs",
    commands={
        "Check and explain": {
            "check": ("cli.check:check_verb", "Check the nodes of a job before it uses them."),
            "bench": ("cli.bench:bench_verb", "Measure the bandwidth between nodes or GPUs, and compare it."),
            "why": ("cli.why:why_verb", "Explain why a run failed or hangs."),
            "profile": ("cli.profile:profile_verb", "Merge the traces of some ranks of a run into one file."),
        },
    },
    words={
        "logs": ("explain why a run failed", "hpcmod why {JOB}"),
        "verify-net": ("prove that a container uses the fast network", "hpcmod check --network {NAME}"),
    },
)
