"""Content of a recipe that is written for the user: recipe.toml, and the scripts of its components."""

from __future__ import annotations

from dataclasses import dataclass

RECIPE_FILE = "recipe.toml"
"""Name of the recipe in its directory."""

COMPONENTS = "components"
"""Name of the directory with the scripts beside it."""

Texts = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class StepText:
    """One step with its own script."""

    component: str
    script: str
    environment: Texts


@dataclass(frozen=True)
class RecipeText:
    """Content of a recipe; see docs/reference/recipes.md."""

    summary: str
    gpu: str
    bases: Texts
    settings: Texts
    environment: Texts
    search: Texts
    """Variables, and directories to prepend, separated by colons."""
    files: Texts
    steps: tuple[StepText, ...]
