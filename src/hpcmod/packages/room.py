"""What packages/ offers to the command line and to other rooms; see hpcmod.core.registry."""

from __future__ import annotations

from hpcmod.core.registry import Room

ROOM = Room(
    "packages",
    commands={
        "Your own packages": {
            "add": ("cli.add:add_verb", "Add Python packages to a container."),
            "packages": ("cli.states:packages_verb", "Show the packages that you added to a container."),
            "drop": ("cli.add:drop_verb", "Remove packages that you added to a container."),
            "undo": ("cli.states:undo_verb", "Undo the last change of your packages for a container."),
            "edit": ("cli.editing:edit_verb", "Edit your packages in the container, in a shell or with a command."),
            "bake": ("cli.bake:bake_verb", "Put packages into a new image."),
            "rebase": ("cli.rebase:rebase_verb", "Rebuild your packages for another version of a container."),
        },
    },
    verifiers=("packages:verify_packages",),
    mpis=("mpi:find_mpi",),
    additions=("shipped:ShippedPackages.of",),
    words={
        "commit": ("put your packages into a new image", "hpcmod bake {NAME}"),
        "pip": ("add Python packages to a container", "hpcmod add NAME {PACKAGE}"),
        "pip install": ("add Python packages to a container", "hpcmod add NAME {PACKAGE}"),
        "pip uninstall": ("remove packages that you added", "hpcmod drop NAME {PACKAGE}"),
        "pip list": ("show the packages that you added", "hpcmod packages NAME"),
        "conda": ("add conda packages to a container", "hpcmod add NAME --conda {PACKAGE}"),
        "pack": ("change your packages by hand", "hpcmod edit {NAME}"),
        "freeze": ("print a lock file of your packages", "hpcmod packages NAME --lock"),
    },
)
