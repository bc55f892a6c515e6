"""The table of commands: where each one is, and its help; a command's module is imported only when it is called.

A new command is one line here. A test checks that its help is the first line of its docstring.
"""

from __future__ import annotations

VERBS: dict[str, dict[str, tuple[str, str]]] = {
    "Find and run": {
        "ls": (
            "catalogue:list_verb",
            "List the containers on this machine.",
        ),
        "search": (
            "catalogue:search_verb",
            "Search containers by name, description or Python package.",
        ),
        "info": (
            "catalogue:info_verb",
            "Show what a container or SIF contains, without starting it.",
        ),
        "diff": (
            "catalogue:diff_verb",
            "Compare the packages and settings of two containers.",
        ),
        "exec": (
            "container:exec_verb",
            "Run a command in a container.",
        ),
        "shell": (
            "container:shell_verb",
            "Start a shell in a container.",
        ),
        "run": (
            "container:run_verb",
            "Run the image's own run script.",
        ),
    },
    "Install": {
        "install": (
            "install:install",
            "Install container modules by name or easyconfig.",
        ),
        "accept": (
            "accept:accept",
            "Accept the licence of a container, once.",
        ),
        "outdated": (
            "installed:outdated_verb",
            "List your installations that are deprecated or out of date.",
        ),
        "update": (
            "installed:update_verb",
            "Update your installations; unchanged images are kept.",
        ),
        "remove": (
            "installed:remove_verb",
            "Remove one of your installations; your own packages are kept.",
        ),
    },
    "Images": {
        "fetch": ("image:fetch", "Fetch an image as a verified SIF and print its path."),
        "convert": (
            "image:convert",
            "Convert a container image to a SIF.",
        ),
        "build": (
            "build:build",
            "Build an image with MPI, libfabric and the network plugin.",
        ),
        "verify": (
            "image:verify",
            "Verify an image or a published container.",
        ),
        "inspect": ("user:inspect", "Show what an image contains, without starting it."),
        "compat": (
            "compat:compat",
            "Check whether an image fits this machine.",
        ),
        "cache": ("cache:cache", "List and clean the cache of registry downloads."),
        "bundle": ("bundle:bundle", "Pack easyconfigs and images for an offline machine."),
    },
    "Recipes": {
        "lint": (
            "lint:lint",
            "Find mistakes in batch scripts, easyconfigs and shpc recipes.",
        ),
        "import": (
            "importing:importing",
            "Make easyconfigs from recipes of LUMI, shpc or NGC, or a SIF.",
        ),
    },
    "Publish": {
        "publish": (
            "publish:publish_verb",
            "Install, test and publish a container for all users.",
        ),
        "alias": ("lifecycle:alias", "Point an alias at a container."),
        "promote": ("lifecycle:promote", "Make a container the default version of its name."),
        "deprecate": (
            "lifecycle:deprecate",
            "Warn users at load that a container will be retired.",
        ),
        "retire": (
            "lifecycle:retire",
            "Block loading of a container, now or from a date.",
        ),
        "restore": ("lifecycle:restore", "Return a deprecated or retired container to normal."),
        "undo": (
            "lifecycle:undo",
            "Undo a change of the catalogue, by default the latest.",
        ),
        "gc": (
            "gc:gc",
            "Remove unused images and report unused modules.",
        ),
        "catalogue": (
            "catalogue_admin:catalogue_verb",
            "Create and maintain a catalogue.",
        ),
        "docs": (
            "docs:docs",
            "Write web pages about the containers of a catalogue.",
        ),
    },
    "Jobs": {
        "job": ("job:job", "Write a batch script for this machine and submit it."),
        "launch": ("launch:launch", "Run a program in your current Slurm allocation."),
    },
    "This machine": {
        "doctor": ("user:doctor", "Check this machine for problems."),
        "advisory": (
            "advisory:advisory",
            "Show known problems of a container and their fixes.",
        ),
        "env": (
            "environment:env",
            "Print the settings that let your site's `eb` find hpcmod.",
        ),
        "site": ("site:site", "Show and check site profiles."),
        "binds": (
            "site:binds",
            "Print the bind paths of this node, one per line.",
        ),
        "netstack": (
            "netstack:netstack",
            "Copy the host's network libraries for use in containers.",
        ),
        "completion": ("completion:completion", "Print the completion script for a shell."),
    },
}
"""By heading of the help and by command: module and attribute in hpcmod.cli, and the help in one sentence."""
