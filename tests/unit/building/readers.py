"""Parsers of external input in building/, for tests.fuzz."""

from __future__ import annotations

from hpcmod.building.values.pins import parse_lock
from hpcmod.building.values.recipe import parse_recipe
from tests.fuzz.reader import read_all, text_of, texts

texts("build recipe", lambda data: parse_recipe(text_of(data), "x"), read_all("recipes/*.toml"))
texts("lock of a build", lambda data: parse_lock(text_of(data), "lock"), read_all("recipes/lock"))
