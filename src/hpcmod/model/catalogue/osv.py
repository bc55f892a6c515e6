"""Convert entries of the Open Source Vulnerability format (OSV, https://ossf.github.io/osv-schema/) to advisories."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from hpcmod.errors import BadInputError
from hpcmod.model.strict_json import JsonObject, load_json

_LIMIT = 4 << 20  # bytes per entry
_MOST = 10_000  # packages, ranges, events
_TEXT = 3000  # characters shown by modules


def name_of_entry(text: bytes, where: str) -> str:
    """Return the id of an entry, e.g. GHSA-53q9-r3pm-6pq6, checked to be a safe file name.

    Raises
    ------
    BadInputError
        If it has no such id.
    """
    name = JsonObject(load_json(text, where, limit=_LIMIT), where).text("id")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        raise BadInputError(f"{where}: not an OSV entry: its id is {name!r}", "Get it from https://osv.dev.")
    return name


def render_entry(text: bytes, where: str, *, until: str) -> str:
    """Render an advisory from an entry about Python packages.

    Parameters
    ----------
    until
        Day on which the advisory expires.

    Raises
    ------
    BadInputError
        If it is not an OSV entry, is withdrawn, or does not concern a Python package.
    """
    entry = JsonObject(load_json(text, where, limit=_LIMIT), where)
    name = name_of_entry(text, where)
    if entry.text("withdrawn"):
        raise BadInputError(f"{where}: {name} was withdrawn", "")
    ranges = list(
        dict.fromkeys(
            package_range for affected in entry.objects("affected", _MOST) for package_range in _ranges(affected)
        )
    )
    if not ranges:
        raise BadInputError(f"{where}: {name} lists no version of a Python package (PyPI)", "")
    summary = " ".join(entry.text("summary").split()) or name
    details = _plain(entry.text("details")) or summary
    lines = [
        f"title = {_toml(f'{name}: {summary}'[:200])}",
        f"text = {_toml(details[:_TEXT])}",
        f"source = {_toml(_source(entry, name))}",
        f"issued = {(entry.text('published') or entry.text('modified'))[:10] or until}",
        f"expires = {until}",
        "[match]",
        f"packages = [{', '.join(map(_toml, ranges))}]",
    ]
    return "\n".join(lines) + "\n"


def _ranges(affected: JsonObject) -> Iterator[str]:
    package = affected.object("package")
    if package.text("ecosystem").partition(":")[0] != "PyPI":
        return
    name, made = package.text("name"), False
    for version_range in affected.objects("ranges", _MOST):
        if version_range.text("type") in ("ECOSYSTEM", "SEMVER"):
            for bounds in _events(version_range):
                made = True
                yield f"{name}{bounds}"
    if not made:
        yield from (f"{name}=={version}" for version in affected.texts("versions"))


def _events(version_range: JsonObject) -> Iterator[str]:
    """Yield the bounds of each version range: from the introducing version to the fixed version."""
    begins: str | None = None
    for event in version_range.objects("events", _MOST):
        if event.text("introduced"):
            begins = "" if event.text("introduced") == "0" else f">={event.text('introduced')}"
        elif begins is not None and (event.text("fixed") or event.text("last_affected")):
            ends = f"<{event.text('fixed')}" if event.text("fixed") else f"<={event.text('last_affected')}"
            yield ",".join(filter(None, (begins, ends)))
            begins = None
    if begins is not None:
        yield begins


def _source(entry: JsonObject, name: str) -> str:
    links = [reference.text("url") for reference in entry.objects("references", _MOST)]
    fit = (link for link in links if re.fullmatch(r"https://[!-~]{3,500}", link))
    return next(fit, f"https://osv.dev/vulnerability/{name}")


def _plain(text: str) -> str:
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f]", "", text).strip()


def _toml(value: Any) -> str:
    return json.dumps(_plain(str(value)), ensure_ascii=False)
