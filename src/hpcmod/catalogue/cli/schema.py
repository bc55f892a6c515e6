"""The JSON Schema of advisories, for editors."""

from __future__ import annotations

from typing import Any

from hpcmod.catalogue.values.advisory import Advisory
from hpcmod.catalogue.values.advisory_schema import KEYS, REQUIRED
from hpcmod.core.cli.reference.schemas import descriptions_of, make_file_schema
from hpcmod.core.values.shape import shape_of


def advisory_schema() -> dict[str, Any]:
    """Return the schema of an advisory."""
    meanings = descriptions_of(Advisory)
    keys = {key: (shape_of(check), meanings.get(field, "")) for key, (field, check) in KEYS.items()}
    return make_file_schema("advisory", keys, REQUIRED)
