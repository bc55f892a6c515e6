"""The binds that a LUMI easyconfig sets in variables or in its Lua footer."""

from __future__ import annotations

import re
from collections.abc import Mapping

_FOOTER_BINDS = re.compile(r"create_container_vars\s*\(.*,\s*'([^'\n]*)'\s*\)")
LUA_STRING = r"""(?:'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")"""
LUA_BINDS = re.compile(
    r"(?:setenv|pushenv|prepend_path|append_path)\s*\(\s*['\"](?:SINGULARITY|APPTAINER)_BIND(?:PATH)?['\"]"
    rf"\s*,\s*({LUA_STRING})\s*(?:,[^()\n]*)?\)[ \t]*;?"
)
"""Calls in a Lua footer that set binds; the group is the quoted list."""


def binds_of(variables: Mapping[str, str], footer: str) -> tuple[str, ...]:
    """Return the binds that a LUMI easyconfig sets, by a variable of its module or in its Lua footer."""
    lists = [value for name, value in variables.items() if re.search(r"_BIND(PATH)?$", name)]
    set_in_lua = (bind[1:-1] for bind in LUA_BINDS.findall(footer))
    listed = (
        bind for text in (*lists, *_FOOTER_BINDS.findall(footer), *set_in_lua) for bind in text.split(",") if bind
    )
    return tuple(dict.fromkeys(listed))
