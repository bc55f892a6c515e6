"""Pass the arguments and options of a command as one typed value, instead of many parameters."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

Flags = TypeVar("Flags")


def with_flags(kind: type[Flags]) -> Callable[[Callable[[Flags], None]], Callable[..., None]]:
    """Call a command with one frozen dataclass whose fields are its arguments and options.

    It is the innermost decorator of a command. This is the one place where values from click have no type; a test
    compares the fields of each dataclass with the options of its command.
    """

    def decorate(command: Callable[[Flags], None]) -> Callable[..., None]:
        @wraps(command)
        def call(**given: Any) -> None:
            command(kind(**given))

        return call

    return decorate
