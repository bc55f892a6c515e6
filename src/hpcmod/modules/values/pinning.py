"""Rewrite the image of an easyconfig with its digest; every other line stays as its author wrote it."""

from __future__ import annotations

import ast

from hpcmod.core.errors import BadInputError
from hpcmod.modules.values.python_text import source_lines

_REGISTRY = ("docker://", "oras://")
_COLUMNS = 120  # EasyBuild's style check
_CURE = "Edit it by hand: image = 'docker://HOST/NAME:TAG@sha256:...'"


def pin_image(text: str, where: str, digest: str) -> str:
    """Return the easyconfig with the digest in `image`, and without `checksums = [None]` and its comment.

    `text`: An easyconfig whose `image` is a plain string.
    `where`: File name for messages.
    `digest`: The digest: `sha256:` and 64 hexadecimal digits.

    Raises BadInputError if `image` is not assigned once, as one string that names an image of a registry.
    """
    assignments = _assignments(text, where)
    image = assignments.get("image")
    if image is None or not isinstance(image.value, ast.Constant) or not isinstance(image.value.value, str):
        raise BadInputError(f"{where}: image is not assigned once, as a plain string", _CURE)
    reference = image.value.value
    if not reference.startswith(_REGISTRY):
        raise BadInputError(f"{where}: {reference} is not in a registry", "Only such images have a digest.")
    changes = {image: _assign(reference.partition("@")[0], digest)}
    checksums = assignments.get("checksums")
    if checksums is not None and ast.unparse(checksums.value) == "[None]":
        changes[checksums] = []
    return _replace(source_lines(text), changes)


def _assignments(text: str, where: str) -> dict[str, ast.Assign]:
    """Return the assignments of a single name at top level; a name that is assigned twice is left out."""
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as err:
        raise BadInputError(f"{where}: not a valid easyconfig: {err}") from err
    assignments = [node for node in body if isinstance(node, ast.Assign)]
    names = [ast.unparse(node.targets[0]) for node in assignments]
    return {name: node for name, node in zip(names, assignments) if names.count(name) == 1}


def _assign(reference: str, digest: str) -> list[str]:
    line = f"image = {f'{reference}@{digest}'!r}"
    if len(line) <= _COLUMNS:
        return [line]
    return ["image = (", f"    {reference!r}", f"    {f'@{digest}'!r}", ")"]


def _replace(lines: list[str], changes: dict[ast.Assign, list[str]]) -> str:
    """Replace the lines of assignments; with one that is removed goes the comment directly above it."""
    for node, new in sorted(changes.items(), key=lambda change: -change[0].lineno):
        first, last = node.lineno - 1, node.end_lineno or node.lineno
        while not new and first and lines[first - 1].startswith("#"):
            first -= 1
        lines[first:last] = [f"{line}\n" for line in new]
    return "".join(lines)
