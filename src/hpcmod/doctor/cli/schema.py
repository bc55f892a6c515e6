"""The JSON Schema of site profiles, for editors: every key with its meaning."""

from __future__ import annotations

from typing import Any

from hpcmod.core.cli.reference.schemas import descriptions_of, make_file_schema
from hpcmod.core.values.shape import shape_of
from hpcmod.machine.values.schema import SCHEMA
from hpcmod.machine.values.site import TABLES, Limits, NodeType, Site, StagePlace

_OWNERS = {"": Site, "nodes.*": NodeType, "limits.*": Limits, "stage.*": StagePlace}


def profile_schema() -> dict[str, Any]:
    """Return the schema of a site profile. Keys and tables may be false: it removes what an extended profile sets."""
    keys = {key: ({"anyOf": [shape_of(known.check), {"const": False}]}, explain(key)) for key, known in SCHEMA.items()}
    return make_file_schema("site profile", keys, ["name"], {"type": ["object", "boolean"], "not": {"const": True}})


def explain(key: str) -> str:
    """Return the meaning of a key, from the string below its field, with the default."""
    if SCHEMA[key].meaning:
        return SCHEMA[key].meaning
    table, _, name = key.rpartition(".")
    owner: Any = _OWNERS.get(table) or type(TABLES[table])
    default = owner._field_defaults.get(name)
    words = default if isinstance(default, tuple) else [default]
    shown = ", ".join(f"`{word}`" for word in words if word)
    return descriptions_of(owner)[name] + (f" Default: {shown}." if shown else "")
