"""Read which image an easyconfig uses from its text, without running it: for machines and tools without EasyBuild."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hpcmod.core.errors import BadInputError
from hpcmod.modules.values.static_values import read_static_values

CONSTANTS: Mapping[str, Any] = {"SYSTEM": {"name": "system", "version": "system"}}
"""The constants that EasyBuild defines for easyconfigs, limited to those used for containers."""

_TEMPLATE = re.compile(r"%\((\w+)\)s")


@dataclass(frozen=True)
class NamedImage:
    """The image that an easyconfig uses."""

    software: str
    """Its `name`."""
    reference: str
    """The image reference: `image`, or the first of `sources`."""
    source_urls: tuple[str, ...]
    checksum: str | None
    """The sha256 from the easyconfig; None if it has none."""


def read_named_image(text: str, where: str) -> NamedImage:
    """Return the image that an easyconfig uses.

    Raises BadInputError if the image cannot be determined without running the easyconfig, or there is none.
    """
    values = read_static_values(text, where, constants=CONSTANTS).known
    templates = templates_of(values)
    first = values.get("image") or next(iter(_list(values, "sources")), None)
    urls = _list(values, "source_urls")
    if isinstance(first, Mapping):
        urls = [*_list(first, "source_urls"), *urls]
        first = first.get("filename")
    if not isinstance(first, str) or not all(isinstance(url, str) for url in urls):
        raise BadInputError(
            f"{where}: the image cannot be determined without EasyBuild", "Pass the image instead of the easyconfig."
        )
    checksum = next(iter(_list(values, "checksums")), None)
    return NamedImage(
        software=templates["name"],
        reference=_fill(first, templates, where),
        source_urls=tuple(_fill(url, templates, where) for url in urls),
        checksum=checksum if isinstance(checksum, str) else None,
    )


def templates_of(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the EasyBuild templates whose values are in the text: by name, without %( and )s."""
    name, version, suffix = (str(values.get(key, "")) for key in ("name", "version", "versionsuffix"))
    major, _, rest = version.partition(".")
    minor = rest.partition(".")[0]
    return {
        "name": name,
        "namelower": name.lower(),
        "nameletter": name[:1],
        "nameletterlower": name[:1].lower(),
        "version": version,
        "versionsuffix": suffix,
        "version_major": major,
        "version_minor": minor,
        "version_major_minor": f"{major}.{minor}",
    }


def fill_templates(text: str, templates: Mapping[str, str]) -> str:
    """Substitute the known templates; others are left unchanged."""
    return _TEMPLATE.sub(lambda match: templates.get(match[1], match[0]), text)


def fill_values(value: Any, templates: Mapping[str, str]) -> Any:
    """Substitute the known templates in a string, and in those within lists and dictionaries."""
    if isinstance(value, str):
        return fill_templates(value, templates)
    if isinstance(value, (list, tuple)):
        return type(value)(fill_values(element, templates) for element in value)
    if isinstance(value, dict):
        return {fill_values(key, templates): fill_values(element, templates) for key, element in value.items()}
    return value


def _list(values: Mapping[str, Any], name: str) -> list[Any]:
    value = values.get(name)
    return value if isinstance(value, list) else []


def _fill(text: str, templates: Mapping[str, str], where: str) -> str:
    """Substitute the EasyBuild templates that an image reference may use."""
    unknown = [name for name in _TEMPLATE.findall(text) if name not in templates]
    if unknown:
        raise BadInputError(
            f"{where}: the image depends on the unknown template %({unknown[0]})s",
            "Pass the image instead of the easyconfig.",
        )
    return _TEMPLATE.sub(lambda match: templates[match[1]], text)
