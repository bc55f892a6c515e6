"""The commands for a user's packages: add, drop, packages, undo, edit, rebase, bake."""
