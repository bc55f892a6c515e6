"""What catalogue/ offers to the command line and to other rooms; see hpcmod.core.registry."""

from __future__ import annotations

from hpcmod.core.registry import Room

ROOM = Room(
    "catalogue",
    commands={
        "Find and run": {
            "ls": ("cli.find:list_verb", "List the containers on this machine."),
            "search": ("cli.find:search_verb", "Search containers and their Python packages."),
            "info": ("cli.find:info_verb", "Show what a container or SIF contains, without starting it."),
            "exec": ("cli.run:exec_verb", "Run a command in a container."),
            "shell": ("cli.run:shell_verb", "Start a shell in a container."),
            "use": ("cli.switch:use_verb", "Print the command that gives $SIF and singularity to a loaded container."),
        },
        "Install": {
            "install": ("cli.install:install", "Install container modules by name, image or easyconfig."),
            "outdated": ("cli.installed:outdated_verb", "List your installations that are deprecated or out of date."),
            "update": ("cli.installed:update_verb", "Update your installations; unchanged images are kept."),
            "repair": ("cli.repair:repair_verb", "Restore missing or changed files of one of your installations."),
            "remove": ("cli.installed:remove_verb", "Remove one of your installations; your own packages are kept."),
        },
        "Images": {
            "compat": ("cli.compat:compat", "Check whether an image fits this machine."),
            "verify": ("cli.verify_container:verify", "Verify an image or an installed container."),
            "bundle": ("cli.bundle:bundle", "Pack easyconfigs and images for an offline machine."),
        },
        "Publish": {
            "publish": ("cli.publish:publish_verb", "Install, test and publish a container for all users."),
            "catalogue": ("cli.group:catalogue_verb", "Create and maintain a catalogue."),
        },
        "hpcmod site": {
            "setup": ("cli.setup:site_setup", "Write the module that gives hpcmod and a catalogue to users."),
            "env": ("cli.environment:env", "Print the settings that let your site's `eb` find hpcmod."),
        },
        "hpcmod catalogue": {
            "init": (
                "cli.catalogue:init",
                "Create a catalogue on a shared file system, or change the given settings of an existing one.",
            ),
            "promote": (
                "cli.lifecycle:promote",
                "Make a container the default version of its name, or point an alias at it.",
            ),
            "deprecate": ("cli.lifecycle:deprecate", "Warn users at load that a container will be retired."),
            "retire": ("cli.lifecycle:retire", "Block loading of a container, now or from a date."),
            "restore": ("cli.lifecycle:restore", "Return a deprecated or retired container to normal."),
            "journal": ("cli.catalogue:journal", "Show who changed what, when and why; the latest change last."),
            "undo": (
                "cli.lifecycle:undo",
                "Undo a change of the catalogue: the latest that still stands, or the one with a number.",
            ),
            "pin": ("cli.pin:pin_verb", "Write the digests of images into easyconfigs."),
            "refresh": (
                "cli.refresh:refresh",
                "Regenerate modules and scripts with the current site profile and hpcmod; images do not change.",
            ),
            "rebuild": (
                "cli.catalogue:rebuild",
                "Regenerate modules, aliases, index and notices from the records, and lost records from the journal.",
            ),
            "verify": (
                "cli.verify:verify",
                "Check a catalogue: modes and groups of all files, and each container against its record.",
            ),
            "gc": ("cli.gc:gc", "Remove unused images and report unused modules."),
            "advisory": ("cli.advisory:advisory", "Show known problems of a container and their fixes."),
            "docs": ("cli.docs:docs", "Write web pages about the containers of a catalogue."),
            "usage": (
                "cli.usage:usage",
                "Show how often modules were loaded, by container and month, and optionally by group or user.",
            ),
            "move": (
                "cli.catalogue:move",
                "Copy the catalogue to a new directory, and make its modules load from there.",
            ),
        },
    },
    schemas=("cli.schema:advisory_schema",),
    words={
        "list": ("list containers", "hpcmod ls {}"),
        "status": ("list containers", "hpcmod ls"),
        "ps": ("list containers", "hpcmod ls"),
        "images": ("list containers", "hpcmod ls"),
        "avail": ("list containers", "hpcmod ls {}"),
        "spider": ("search containers and their packages", "hpcmod search {TEXT}"),
        "find": ("search containers and their packages", "hpcmod search {TEXT}"),
        "show": ("show what a container contains", "hpcmod info {NAME}"),
        "whatis": ("show what a container contains", "hpcmod info {NAME}"),
        "inspect": ("show what a container contains", "hpcmod info {NAME}"),
        "describe": ("show what a container contains", "hpcmod info {NAME}"),
        "load": ("load a container into your shell", "module load {NAME}"),
        "unload": ("unload a container from your shell", "module unload {NAME}"),
        "start": ("start a shell in a container", "hpcmod shell {NAME}"),
        "run": ("run a command in a container", "hpcmod exec {NAME COMMAND}"),
        "python": ("run Python in a container", "hpcmod exec NAME python {FILE}"),
        "uninstall": ("remove an installation", "hpcmod remove {NAME}"),
        "rm": ("remove an installation", "hpcmod remove {NAME}"),
        "delete": ("remove an installation", "hpcmod remove {NAME}"),
        "upgrade": ("update your installations", "hpcmod update {NAME}"),
        "reinstall": ("restore the files of an installation", "hpcmod repair {NAME}"),
        "accept": ("read and accept a licence", "hpcmod install --accept-licence {NAME}"),
        "test": ("verify an installation", "hpcmod verify {NAME}"),
        "diff": ("compare two containers", "hpcmod info FIRST --diff SECOND"),
        "tag": ("point an alias at a container", "hpcmod catalogue promote NAME/VERSION --alias WORD"),
        "alias": ("point an alias at a container", "hpcmod catalogue promote NAME/VERSION --alias WORD"),
        "export": ("pack easyconfigs and images for an offline machine", "hpcmod bundle"),
        "history": ("list the changes of a catalogue", "hpcmod catalogue journal {}"),
    },
)
