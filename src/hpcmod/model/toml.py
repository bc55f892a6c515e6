"""Parse untrusted TOML: a table, or one error that names the line."""

from __future__ import annotations

import sys
from typing import Any

from hpcmod.errors import BadInputError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def load_toml(text: str, what: str) -> dict[str, Any]:
    """Parse a TOML document.

    Parameters
    ----------
    what
        Kind of document and its file, for the message.

    Raises
    ------
    BadInputError
        If it is not valid TOML, or nested too deeply to be parsed.
    """
    try:
        tree: dict[str, Any] = tomllib.loads(text)
    except ValueError as err:  # a TOMLDecodeError, or a number with too many digits
        raise BadInputError(f"{what} is not valid TOML: {err}", "Fix that line.") from err
    except RecursionError:
        raise BadInputError(f"{what} is nested too deeply", "Write it without nested lists and tables.") from None
    return tree
