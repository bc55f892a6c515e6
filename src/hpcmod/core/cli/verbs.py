"""The table of commands: where each one is, and its help; a command's module is imported only when it is called.

A new command is one line here. A test checks that its help is the first line of its docstring.
"""

from __future__ import annotations

Commands = dict[str, tuple[str, str]]
"""By command: module and attribute in hpcmod, and the help in one sentence."""

VERBS: dict[str, Commands] = {
    "Find and run": {
        "ls": (
            "catalogue.cli.find:list_verb",
            "List the containers on this machine.",
        ),
        "search": (
            "catalogue.cli.find:search_verb",
            "Search containers and their Python packages.",
        ),
        "info": (
            "catalogue.cli.find:info_verb",
            "Show what a container or SIF contains, without starting it.",
        ),
        "exec": (
            "catalogue.cli.run:exec_verb",
            "Run a command in a container.",
        ),
        "shell": (
            "catalogue.cli.run:shell_verb",
            "Start a shell in a container.",
        ),
        "use": (
            "catalogue.cli.switch:use_verb",
            "Print the command that gives $SIF and singularity to a loaded container.",
        ),
    },
    "Notebooks and editors": {
        "kernel": (
            "notebooks.cli.kernel:kernel_verb",
            "Install a Jupyter kernel that runs in a container.",
        ),
        "jupyter": (
            "notebooks.cli.jupyter:jupyter_verb",
            "Run a Jupyter server of a container on a compute node.",
        ),
        "code": (
            "notebooks.cli.code:code_verb",
            "Let Visual Studio Code run and debug Python in a container.",
        ),
    },
    "Install": {
        "install": (
            "catalogue.cli.install:install",
            "Install container modules by name or easyconfig.",
        ),
        "outdated": (
            "catalogue.cli.installed:outdated_verb",
            "List your installations that are deprecated or out of date.",
        ),
        "update": (
            "catalogue.cli.installed:update_verb",
            "Update your installations; unchanged images are kept.",
        ),
        "repair": (
            "catalogue.cli.repair:repair_verb",
            "Restore missing or changed files of one of your installations.",
        ),
        "remove": (
            "catalogue.cli.installed:remove_verb",
            "Remove one of your installations; your own packages are kept.",
        ),
    },
    "Your own packages": {
        "add": ("packages.cli.add:add_verb", "Add Python packages to a container."),
        "packages": ("packages.cli.states:packages_verb", "Show the packages that you added to a container."),
        "drop": ("packages.cli.add:drop_verb", "Remove packages that you added to a container."),
        "undo": ("packages.cli.states:undo_verb", "Undo the last change of your packages for a container."),
        "edit": (
            "packages.cli.editing:edit_verb",
            "Edit your packages in the container, in a shell or with a command.",
        ),
        "bake": ("packages.cli.bake:bake_verb", "Put packages into a new image."),
        "rebase": ("packages.cli.rebase:rebase_verb", "Rebuild your packages for another version of a container."),
    },
    "Images": {
        "fetch": ("images.cli.fetch:fetch", "Fetch an image as a verified SIF and print its path."),
        "build": (
            "building.cli.build:build",
            "Build an image with MPI, libfabric and the network plugin.",
        ),
        "verify": (
            "catalogue.cli.verify_container:verify",
            "Verify an image or an installed container.",
        ),
        "push": ("images.cli.push:push_verb", "Push a SIF or an OCI image to a registry, and sign it."),
        "compat": (
            "compat.cli.compat:compat",
            "Check whether an image fits this machine.",
        ),
        "cache": ("images.cli.cache:cache", "List and clean the cache of registry downloads."),
        "bundle": ("catalogue.cli.bundle:bundle", "Pack easyconfigs and images for an offline machine."),
    },
    "Recipes": {
        "lint": (
            "lint.cli.lint:lint",
            "Find mistakes in batch scripts, easyconfigs and site profiles.",
        ),
        "import": (
            "importing.cli.importing:importing",
            "Make easyconfigs from recipes of other tools, or a SIF.",
        ),
    },
    "Publish": {
        "publish": (
            "catalogue.cli.publish:publish_verb",
            "Install, test and publish a container for all users.",
        ),
        "catalogue": (
            "catalogue.cli.group:catalogue_verb",
            "Create and maintain a catalogue.",
        ),
    },
    "Jobs": {
        "job": ("jobs.cli.job:job", "Write a batch script for this machine and submit it."),
        "launch": ("jobs.cli.launch:launch", "Run a program in your current Slurm allocation."),
    },
    "Check and explain": {
        "check": ("runs.cli.check:check_verb", "Check the nodes of a job before it uses them."),
        "bench": ("runs.cli.bench:bench_verb", "Measure the bandwidth between nodes or GPUs, and compare it."),
        "why": ("runs.cli.why:why_verb", "Explain why a run failed or hangs."),
        "profile": ("runs.cli.profile:profile_verb", "Merge the traces of some ranks of a run into one file."),
    },
    "This machine": {
        "doctor": ("doctor.cli.doctor:doctor", "Check this machine for problems."),
        "site": ("doctor.cli.site:site", "Show and check site profiles, and what they mean on this node."),
    },
}
"""All commands, by heading of the help."""

SITE: Commands = {
    "show": (
        "doctor.cli.profiles:site_show",
        "Print a profile as complete TOML, with everything it extends merged in.",
    ),
    "ls": ("doctor.cli.profiles:site_list", "List the shipped profiles."),
    "detect": (
        "doctor.cli.profiles:site_detect",
        "Show which profile is used here and why, and which others match.",
    ),
    "check": ("doctor.cli.profiles:site_check", "Compare a profile with this node."),
    "new": ("doctor.cli.new:site_new", "Write a profile of this machine from what its scheduler and its nodes say."),
    "settings": (
        "doctor.cli.settings:site_settings",
        "Explain the variables that a profile sets for a run.",
    ),
    "binds": ("doctor.cli.binds:binds", "Print the bind paths of this node, one per line."),
    "netstack": ("compat.cli.netstack:netstack", "Copy the host's network libraries for use in containers."),
    "setup": (
        "catalogue.cli.setup:site_setup",
        "Write the module that gives hpcmod and a catalogue to users.",
    ),
    "env": ("catalogue.cli.environment:env", "Print the settings that let your site's `eb` find hpcmod."),
    "completion": ("core.cli.completion:completion", "Print the completion script for a shell."),
}
"""Commands below `hpcmod site`."""

CATALOGUE: Commands = {
    "init": (
        "catalogue.cli.catalogue:init",
        "Create a catalogue on a shared file system, or change the given settings of an existing one.",
    ),
    "promote": (
        "catalogue.cli.lifecycle:promote",
        "Make a container the default version of its name, or point an alias at it.",
    ),
    "deprecate": (
        "catalogue.cli.lifecycle:deprecate",
        "Warn users at load that a container will be retired.",
    ),
    "retire": (
        "catalogue.cli.lifecycle:retire",
        "Block loading of a container, now or from a date.",
    ),
    "restore": ("catalogue.cli.lifecycle:restore", "Return a deprecated or retired container to normal."),
    "journal": ("catalogue.cli.catalogue:journal", "Show who changed what, when and why; the latest change last."),
    "undo": ("catalogue.cli.lifecycle:undo", "Undo a change of the catalogue: the latest, or the one with a number."),
    "pin": ("catalogue.cli.pin:pin_verb", "Write the digests of images into easyconfigs."),
    "refresh": (
        "catalogue.cli.refresh:refresh",
        "Regenerate modules and scripts with the current site profile and hpcmod; images do not change.",
    ),
    "rebuild": (
        "catalogue.cli.catalogue:rebuild",
        "Regenerate modules, aliases, index and notices from the records; change nothing else.",
    ),
    "verify": (
        "catalogue.cli.verify:verify",
        "Check a catalogue: modes and groups of all files, and each container against its record.",
    ),
    "gc": (
        "catalogue.cli.gc:gc",
        "Remove unused images and report unused modules.",
    ),
    "advisory": (
        "catalogue.cli.advisory:advisory",
        "Show known problems of a container and their fixes.",
    ),
    "docs": (
        "catalogue.cli.docs:docs",
        "Write web pages about the containers of a catalogue.",
    ),
    "usage": (
        "catalogue.cli.usage:usage",
        "Show how often modules were loaded, by container and month, and optionally by group or user.",
    ),
    "move": (
        "catalogue.cli.catalogue:move",
        "Copy the catalogue to a new directory, and make its modules load from there.",
    ),
}
"""Commands below `hpcmod catalogue`."""

GROUPS = {"site": SITE, "catalogue": CATALOGUE}
"""Groups of commands that are known without an import."""

FIRST = {
    "Find and run": ("ls", "info", "exec", "job"),
    "Your own packages": ("add", "packages", "undo"),
    "If something fails": ("why", "check", "doctor"),
    "Install and publish": ("install", "verify", "publish", "catalogue", "site"),
}
"""Commands that `hpcmod` alone lists, by heading."""

DESTRUCTIVE = {"remove", "drop", "undo", "deprecate", "retire", "gc"}
"""Commands that are never suggested for a misspelled word."""

HELP_NAMES = ["-h", "--help"]
"""Options that show the help of any command; click keeps those that it meets first for a command."""
