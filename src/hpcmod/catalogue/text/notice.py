"""Render notice files, which modulefiles read when they are loaded: lines that Lua and Tcl can split without a parser.

A line is a word, a blank, and the rest. Modules do not show notices with a word that they do not know:

    hpcmod-notices 1
    notice 3f2a9c01b7de              start of a notice; shells remember this name when it has been shown
    module PyTorch/2.7.1             only for this module
    until 1772323200                 only before this time, in seconds since 1970
    host >=1.22,<2 /opt/x/{version}  only if the newest such path has such a version; `any`: if one exists
    variable NAME PATTERN            only if the variable is set and matches the pattern
    no-variable NAME                 only if the variable is not set
    say TEXT                         one line of the text to show
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from hpcmod.catalogue.values.advisory import Advisory
from hpcmod.catalogue.values.record import CatalogueRecord
from hpcmod.core.text.quote import sh_word

HEAD = "hpcmod-notices 1"
LIMIT = 65536
"""Maximum size of a notice file in bytes; modules ignore larger files."""

ALL = "all"
"""Name of the file that applies to every image; other files are named by the sha256 of a SIF."""


def render_notices(notices: Iterable[str]) -> str:
    """Render a file of notices in order, each once, leaving out those that do not fit."""
    import hashlib  # slow to import, and rarely needed

    text = f"{HEAD}\n"
    for notice in dict.fromkeys(notices):
        more = f"notice {hashlib.sha256(notice.encode()).hexdigest()[:12]}\n{notice}"
        if len(text.encode()) + len(more.encode()) <= LIMIT:
            text += more
    return text


def render_advisory_notice(advisory: Advisory) -> str:
    """Render an advisory for modules, with its conditions."""
    return _block([*_conditions(advisory), *_say_lines(f"{advisory.title}\n{render_advisory(advisory)}")])


def _conditions(advisory: Advisory) -> Iterator[str]:
    yield f"until {advisory.until}"
    for fact in advisory.host:
        bounds = ",".join(f"{bound.operator}{bound.version}" for bound in fact.bounds)
        yield f"host {bounds or 'any'} {fact.path}"
    for name, pattern in advisory.environment:
        yield f"no-variable {name}" if pattern is None else f"variable {name} {pattern}"


def render_advisory(advisory: Advisory) -> str:
    """Render an advisory's text, cure and source for a terminal."""
    return "\n".join([_visible(advisory.text), *_cures(advisory), f"See {advisory.source} (until {advisory.expires})"])


def _cures(advisory: Advisory) -> Iterator[str]:
    lines = render_cure(advisory)
    if lines:
        yield f"To fix it: {'; '.join(lines)}"
        yield 'To apply all fixes: eval "$(hpcmod catalogue advisory --apply)"'


def render_cure(advisory: Advisory) -> list[str]:
    """Render the cure as POSIX shell commands, one per line."""
    return [
        *(f"unset {name}" for name in advisory.unset),
        *(f"export {name}={sh_word(value)}" for name, value in advisory.set),
    ]


def render_state_notice(record: CatalogueRecord, *, named: bool) -> str:
    """Render the notice of a deprecated or retired container.

    `named`: Whether it applies only to the module with the record's name: another module may have the same image.
    """
    only = [f"module {record.module}"] if named else []
    return _block([*only, *_say_lines("\n".join(_describe_state(record)))])


def _describe_state(record: CatalogueRecord) -> Iterator[str]:
    notice = record.notice
    if record.state == "retired":
        grace = f", and its module does not load from {notice.until}" if notice.until else ""
        yield f"this container is retired: your site no longer maintains it{grace}."
    else:
        end = f", and may be retired on or after {notice.until}" if notice.until else ""
        yield f"this container is deprecated{end}."
    if notice.successor:
        yield f"Use {notice.successor} instead: module load {notice.successor}"
    if notice.reason:
        yield f"Reason: {notice.reason}"


def _say_lines(text: str) -> list[str]:
    return [f"say {line}".rstrip() for line in _visible(text)[:8000].splitlines()]


def _block(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _visible(text: str) -> str:
    """Replace characters that move a terminal's cursor, and line ends other than `\\n`, by `?`."""
    return re.sub("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]", "?", text)
