"""The order in which help shows the commands of the rooms, and what holds for some of them."""

from __future__ import annotations

HEADINGS = (
    "Find and run",
    "Notebooks and editors",
    "Install",
    "Your own packages",
    "Images",
    "Recipes",
    "Publish",
    "Jobs",
    "Check and explain",
    "This machine",
)
"""Headings of the help, in order. A room names the heading of each of its commands."""

GROUPS = ("site", "catalogue")
"""Commands whose own commands are known without an import."""


FIRST = {
    "Find and run": ("ls", "info", "exec", "job"),
    "Your own packages": ("add", "packages", "undo"),
    "If something fails": ("why", "check", "doctor"),
    "Install and publish": ("install", "verify", "publish", "catalogue", "site"),
}
"""Commands that `hpcmod` alone lists, by heading."""

DESTRUCTIVE = {"remove", "drop", "undo", "deprecate", "retire", "gc"}
"""Commands that are never suggested for a misspelled word."""

RESUMED = {
    *("fetch", "push", "install", "update", "repair", "publish", "bundle", "build"),
    *("add", "drop", "rebase", "bake", "edit", "catalogue"),
}
"""Commands that go on, or complete what they began, if they are run again after Ctrl-C."""

HELP_NAMES = ["-h", "--help"]
"""Options that show the help of any command; click keeps those that it meets first for a command."""
