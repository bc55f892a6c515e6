"""Sort the tags of a repository, and find those that are newer releases of the same kind of image."""

from __future__ import annotations

import re
from collections.abc import Iterable

_OF_TOOLS = re.compile(r"sha256-[0-9a-f]{64}(?:\.\w+)?")
"""Tags under which cosign and others store signatures and attestations of an image."""


def sort_tags(names: Iterable[str]) -> list[str]:
    """Return the tags of images, the highest versions first, and names without a number last."""
    return sorted((name for name in names if not _OF_TOOLS.fullmatch(name)), key=_key, reverse=True)


def newer_tags(names: Iterable[str], tag: str) -> list[str]:
    """Return the tags with the same words as a tag and higher numbers, the highest first.

    1.10-cuda12 is newer than 1.9-cuda12; 1.10-rocm6 is another kind of image.
    """
    return [name for name in sort_tags(names) if _words(name) == _words(tag) and _numbers(name) > _numbers(tag)]


def _key(name: str) -> tuple[bool, list[tuple[int, int, str]], str]:
    version = re.sub(r"^[vVr](?=\d)", "", name)
    parts = re.findall(r"\d+|[A-Za-z]+", version)
    return version[:1].isdigit(), [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in parts], name


def _words(name: str) -> list[str]:
    return re.split(r"\d+", name)


def _numbers(name: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", name)]
