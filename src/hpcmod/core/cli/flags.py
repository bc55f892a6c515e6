"""Pass the arguments and options of a command as one typed value, instead of many parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import wraps
from typing import Any, TypeVar

Flags = TypeVar("Flags")

_NESTED = "options"


def with_flags(kind: type[Flags]) -> Callable[[Callable[[Flags], None]], Callable[..., None]]:
    """Call a command with one frozen dataclass whose fields are its arguments and options, see `make_flags`.

    It is the innermost decorator of a command. This is the one place where values from click have no type; a test
    compares the fields of each dataclass with the options of its command.
    """

    def decorate(command: Callable[[Flags], None]) -> Callable[..., None]:
        @wraps(command)
        def call(**given: Any) -> None:
            command(make_flags(kind, given))

        return call

    return decorate


def nested(kind: type[Any]) -> Mapping[str, type[Any]]:
    """Return the metadata of a field of such a dataclass that is itself one, of options that commands share."""
    return {_NESTED: kind}


def make_flags(kind: type[Flags], given: Mapping[str, Any]) -> Flags:
    """Return a dataclass from the options of a command, also the dataclasses in it; see `nested`."""
    kinds = {each.name: each.metadata.get(_NESTED) for each in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: make_flags(inner, given) if inner else given[name] for name, inner in kinds.items()})
