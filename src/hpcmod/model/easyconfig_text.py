"""Which image an easyconfig names, read from its text without running it: for machines and tools without EasyBuild."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hpcmod.errors import BadInputError

_TEMPLATE = re.compile(r"%\((\w+)\)s")


@dataclass(frozen=True)
class NamedImage:
    """The image of an easyconfig."""

    software: str
    """Its `name`."""
    reference: str
    """What it names the image by: `image`, or the first of `sources`."""
    source_urls: tuple[str, ...]
    checksum: str | None
    """The sha256 that it gives; None if it gives none."""


def read_named_image(text: str, where: str) -> NamedImage:
    """Read which image an easyconfig names.

    Raises
    ------
    BadInputError
        If that cannot be seen without running it, or it names none.
    """
    values = _literals(text, where)
    templates = {name: str(values.get(name, "")) for name in ("name", "version", "versionsuffix")}
    templates["namelower"] = templates["name"].lower()
    first = values.get("image") or next(iter(_list(values, "sources")), None)
    urls = _list(values, "source_urls")
    if isinstance(first, Mapping):
        urls = [*_list(first, "source_urls"), *urls]
        first = first.get("filename")
    if not isinstance(first, str) or not all(isinstance(url, str) for url in urls):
        raise BadInputError(f"{where}: names no image that can be read without EasyBuild", "Name the image itself.")
    checksum = next(iter(_list(values, "checksums")), None)
    return NamedImage(
        software=templates["name"],
        reference=_fill(first, templates, where),
        source_urls=tuple(_fill(url, templates, where) for url in urls),
        checksum=checksum if isinstance(checksum, str) else None,
    )


def _literals(text: str, where: str) -> dict[str, Any]:
    """Give what is assigned at the top, as far as it is written out."""
    try:
        tree = ast.parse(text, where)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as err:
        raise BadInputError(f"{where}: is no easyconfig: {err}") from err
    values: dict[str, Any] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            try:
                values[node.targets[0].id] = ast.literal_eval(node.value)
            except (ValueError, TypeError, RecursionError, MemoryError):
                values.pop(node.targets[0].id, None)
    return values


def _list(values: Mapping[str, Any], name: str) -> list[Any]:
    found = values.get(name)
    return found if isinstance(found, list) else []


def _fill(text: str, templates: Mapping[str, str], where: str) -> str:
    """Fill in the templates that EasyBuild knows, as far as an image is named with them."""
    unknown = [name for name in _TEMPLATE.findall(text) if name not in templates]
    if unknown:
        raise BadInputError(f"{where}: names its image with %({unknown[0]})s", "Name the image itself.")
    return _TEMPLATE.sub(lambda match: templates[match[1]], text)
