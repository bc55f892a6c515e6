"""Parse untrusted TOML and YAML: plain values, or one error that names the file."""

from __future__ import annotations

import re
import sys
from typing import Any

from hpcmod.core.errors import BadInputError, LackingError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_LONGEST = 1 << 20  # characters; the longest recipe of shpc's registry, with 310 aliases, has 40,000
_NESTED = re.compile(r"(?:[\[{]\s*){50}")  # for each level, PyYAML goes over all levels again


def load_toml(text: str, what: str) -> dict[str, Any]:
    """Parse a TOML document.

    `what`: Kind of document and its file, for the message.

    Raises BadInputError if it is not valid TOML, or nested too deeply to be parsed.
    """
    try:
        tree: dict[str, Any] = tomllib.loads(text)
    except ValueError as err:  # a TOMLDecodeError, or a number with too many digits
        raise BadInputError(f"{what} is not valid TOML: {err}", "Fix that line.") from err
    except RecursionError:
        raise BadInputError(f"{what} is nested too deeply", "Write it without nested lists and tables.") from None
    return tree


def load_yaml(text: str, where: str) -> Any:
    """Parse a YAML document.

    `where`: Its file, for the message.

    Raises BadInputError if it is not valid YAML, or too long; LackingError if PyYAML is not installed.
    """
    try:
        import yaml
    except ImportError as err:
        raise LackingError(f"{where}: PyYAML is not installed", "pip install PyYAML") from err

    if len(text) > _LONGEST:
        raise BadInputError(f"{where}: {len(text)} characters, which is too long", "")
    if _NESTED.search(text):
        raise BadInputError(f"{where}: nested too deeply", "Write it without nested lists and maps.")
    try:
        loader = yaml.SafeLoader(text)
        loader.yaml_implicit_resolvers = {}  # keep plain scalars as strings: the tag 1.10 is not the number 1.1
        return loader.get_single_data()
    except (yaml.YAMLError, ValueError, RecursionError) as err:
        problem = " ".join(str(err).split())[:200]
        raise BadInputError(f"{where}: invalid YAML: {problem}", "") from err
