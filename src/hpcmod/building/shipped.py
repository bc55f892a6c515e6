"""The recipes that come with hpcmod, and what they are made of."""

from __future__ import annotations

from hpcmod.core.resources import read_texts, shipped


def shipped_recipes() -> dict[str, str]:
    """Return the recipes: TOML text by name."""
    return read_texts(shipped("recipes"), ".toml")


def recipe_components() -> dict[str, str]:
    """Return the scripts that recipes are made of: text by name."""
    return read_texts(shipped("recipes") / "components", ".sh")


def recipe_sources() -> str:
    """Return the list of component sources as TOML text."""
    return (shipped("recipes") / "components" / "sources.toml").read_text(encoding="utf-8")


def recipe_lock() -> str:
    """Return the lock file of the recipes."""
    return (shipped("recipes") / "lock").read_text(encoding="utf-8")
