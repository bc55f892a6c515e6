"""The names that a room's `__init__` has for other rooms, each imported when it is used."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

_NAMED = re.compile(r"^    from (\S+) import (\w+) as \2$", re.MULTILINE)


def named_in(file: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module whose names are imports below `if TYPE_CHECKING`, `from a import b as b`.

    So the names are written once, a type checker knows them, and an import of one costs what its own module does.
    """
    modules: dict[str, str] = {}

    def load(name: str) -> Any:
        if not modules:
            modules.update((found, module) for module, found in _NAMED.findall(Path(file).read_text(encoding="utf-8")))
        if name not in modules:
            raise AttributeError(f"{file} has no {name}")
        return getattr(import_module(modules[name]), name)

    return load
