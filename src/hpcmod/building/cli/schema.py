"""The JSON Schema of recipes, for editors."""

from __future__ import annotations

from typing import Any

from hpcmod.building.values.recipe import KEYS, REQUIRED, Recipe
from hpcmod.core.cli.reference.schemas import descriptions_of, make_file_schema

_FIELDS = {"base": "bases", "with": "extras", "set": "settings", "search": "search_paths"}


def recipe_schema() -> dict[str, Any]:
    """Return the schema of a recipe."""
    meanings = descriptions_of(Recipe)
    keys = {key: (shape, meanings.get(_FIELDS.get(key, key), "")) for key, shape in KEYS.items()}
    return make_file_schema("recipe", keys, REQUIRED)
