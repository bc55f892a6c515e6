"""What doctor/ offers to the command line and to other rooms; see hpcmod.core.registry."""

from __future__ import annotations

from hpcmod.core.registry import Room

ROOM = Room(
    "doctor",
    commands={
        "This machine": {
            "doctor": ("cli.doctor:doctor", "Check this machine for problems."),
            "site": ("cli.site:site", "Show and check site profiles, and what they mean on this node."),
        },
        "hpcmod site": {
            "show": (
                "cli.profiles:site_show",
                "Print a profile as complete TOML, with everything it extends merged in.",
            ),
            "ls": ("cli.profiles:site_list", "List the shipped profiles."),
            "detect": ("cli.profiles:site_detect", "Show which profile is used here and why, and which others match."),
            "use": ("cli.use:site_use", "Use a profile on this machine from now on."),
            "check": ("cli.profiles:site_check", "Compare a profile with this node."),
            "new": ("cli.new:site_new", "Write a profile of this machine from what its scheduler and its nodes say."),
            "settings": ("cli.settings:site_settings", "Explain the variables that a profile sets for a run."),
            "binds": ("cli.binds:binds", "Print the bind paths of this node, one per line."),
            "completion": ("cli.completion:completion", "Print the completion script for a shell."),
        },
    },
    schemas=("cli.schema:profile_schema",),
    words={
        "version": ("print the version", "hpcmod --version"),
        "config": ("show the settings of this machine", "hpcmod site show"),
    },
)
