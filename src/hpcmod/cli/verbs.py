"""The table of verbs: where each one is, and what it is for; a verb's module is imported only when it is called.

A new verb is one line here. Its help is the first line of its docstring, which a test holds it to.
"""

from __future__ import annotations

VERBS: dict[str, dict[str, tuple[str, str]]] = {
    "Find and run": {
        "ls": (
            "catalogue:list_verb",
            "List containers: ready here, or available to install, or deprecated; with size and machine.",
        ),
        "search": (
            "catalogue:search_verb",
            "Search containers by name, version, description, and the Python packages inside.",
        ),
        "info": (
            "catalogue:info_verb",
            "Say all that is known of a container, or of a SIF, without starting it: source, tests, what is inside.",
        ),
        "diff": (
            "catalogue:diff_verb",
            "Compare two containers: packages, environment, what they are built on, commands, size.",
        ),
        "exec": (
            "container:exec_verb",
            "Run a command in a container, with all that its module would set; no module need be loaded.",
        ),
        "shell": (
            "container:shell_verb",
            "Start bash in a container, with all that its module would set; no module need be loaded.",
        ),
        "run": (
            "container:run_verb",
            "Run what an image itself starts, with all that its module would set; no module need be loaded.",
        ),
    },
    "Install": {
        "install": (
            "install:install",
            "Install container modules by name, or from easyconfigs: composes and runs `eb`.",
        ),
        "outdated": (
            "installed:outdated_verb",
            "List what of your own installations is deprecated, or could be newer, with the command that helps.",
        ),
        "update": (
            "installed:update_verb",
            "Refresh scripts and environment of your own installations; an image with the same digest is not touched.",
        ),
        "remove": (
            "installed:remove_verb",
            "Remove an installation of your own: module, scripts and image. What you installed on top of it stays.",
        ),
    },
    "Images": {
        "fetch": ("image:fetch", "Get an image from anywhere as a verified SIF, and print its path."),
        "convert": (
            "image:convert",
            "Convert a container image to a SIF: from a registry, an archive that `docker save` wrote, or a layout.",
        ),
        "build": (
            "build:build",
            "Build an image with MPI, libfabric and the network plugin inside, and print the path of the SIF.",
        ),
        "verify": (
            "image:verify",
            "Check an image: is it whole, unchanged, and vouched for as the site's policy wants.",
        ),
        "inspect": ("user:inspect", "Say what is in an image, without starting it."),
        "compat": (
            "compat:compat",
            "Say whether an image fits this machine, without starting it: ok, warn or refuse, with the reason and the "
            "cure.",
        ),
        "cache": ("cache:cache", "Look after the cache of blobs that come from registries."),
        "bundle": ("bundle:bundle", "Carry easyconfigs and images to a machine without a network, as one file."),
    },
    "Recipes": {
        "lint": (
            "lint:lint",
            "Find mistakes in batch scripts, easyconfigs and shpc recipes.",
        ),
        "import": (
            "importing:importing",
            "Make easyconfigs from what others wrote: LUMI's easyconfigs, recipes of shpc, NGC's modules, bare SIFs.",
        ),
    },
    "Publish": {
        "publish": (
            "publish:publish_verb",
            "Publish a container for everybody: fetched, read, installed, tested, and only then visible.",
        ),
        "alias": ("lifecycle:alias", "Let an alias lead to a container: users load NAME/ALIAS."),
        "promote": ("lifecycle:promote", "Make a container the stable one: `module load NAME` leads to it."),
        "deprecate": (
            "lifecycle:deprecate",
            "Say at each load of a container that it will go: when, why, and what to use instead. It goes on working.",
        ),
        "retire": (
            "lifecycle:retire",
            "Let a container load no more: at once, or from a day on. Loading it says what to use instead, and how.",
        ),
        "restore": ("lifecycle:restore", "Let a deprecated or retired container be as any other again."),
        "undo": (
            "lifecycle:undo",
            "Take back a change of the catalogue: the last one, or that of a number in the journal.",
        ),
        "gc": (
            "gc:gc",
            "Remove what no container needs: leftovers, and images of retired ones. Say what nobody loads.",
        ),
        "catalogue": (
            "catalogue_admin:catalogue_verb",
            "Make a catalogue of containers, read its journal, and make its index anew.",
        ),
        "docs": (
            "docs:docs",
            "Write web pages and Markdown about every container of a catalogue into a directory.",
        ),
    },
    "Jobs": {
        "job": ("job:job", "Write a batch script for this machine, and submit it if asked to."),
        "launch": ("launch:launch", "Run a program in the allocation you are in, as `hpcmod job` would: one srun."),
    },
    "This machine": {
        "doctor": ("user:doctor", "Look at this machine, and say what an installation would stumble over."),
        "advisory": (
            "advisory:advisory",
            "Show known problems of the loaded container module on this node, and what helps.",
        ),
        "env": (
            "environment:env",
            "Print the exports with which a site's own `eb` finds our easyblocks and easyconfigs.",
        ),
        "site": ("site:site", "Look at site profiles: what is true of a machine."),
        "binds": (
            "site:binds",
            "Print what containers of this machine's modules have bound on this node, one bind path a line.",
        ),
        "netstack": (
            "netstack:netstack",
            "Copy the host's network libraries for containers, with all they need, and see whether the copy is stale.",
        ),
        "completion": ("completion:completion", "Print the completion script for a shell."),
    },
}
"""By heading of the help and by verb: module and attribute in hpcmod.cli, and the help in one sentence."""
