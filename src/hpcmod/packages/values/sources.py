"""Read packages that are listed elsewhere as requirements, and where an installed package came from."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from hpcmod.packages.values.requirement import (
    NOTHING,
    Requirements,
    name_of,
    normalize_package,
    parse_file,
    without_credentials,
)

_PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(\s*\[[^\]]*\])?\s*={2,3}\s*([A-Za-z0-9.!+_-]+)\s*(;.*)?")
_EDITABLE = re.compile(r"\s*(?:-e|--editable)[ =]\s*(\S.*)")
_LOCAL = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)(\[[^\]]*\])?\s*@\s*file://(\S+)(.*)")


@dataclass(frozen=True)
class LeftOut:
    """Something that cannot be taken over."""

    name: str
    reason: str


@dataclass(frozen=True)
class Source:
    """Packages to take over: versions are kept where they fit."""

    asked: Requirements = NOTHING
    """Requirements there, without the versions in `versions`."""
    versions: tuple[tuple[str, str], ...] = ()
    """Normalized name and version of the packages that are listed with one."""
    left_out: tuple[LeftOut, ...] = ()


@dataclass(frozen=True)
class PipMetadata:
    """What pip wrote about an installed package."""

    name: str
    version: str
    is_requested: bool
    """Whether a user requested it, rather than another package."""
    direct_url: str
    """Text of direct_url.json; empty for packages from an index."""


@dataclass(frozen=True)
class Editable:
    """A package whose code is used from its own directory."""

    name: str
    path: str


@dataclass(frozen=True)
class DirectUrl:
    """Source of a package that does not come from an index: the direct_url.json that pip writes."""

    url: str = ""
    """Without credentials; empty for packages from an index."""
    kind: str = ""
    """directory, editable, archive, or the name of a version control system."""
    commit: str = ""
    sha256: str = ""
    """Of an archive."""

    @property
    def is_here(self) -> bool:
        """Return whether it is an archive on this machine, such as a wheel."""
        return self.kind == "archive" and self.url.startswith("file://")

    @property
    def requirement(self) -> str:
        """Return a URL that pip accepts; empty for packages from an index."""
        return f"{self.kind}+{self.url}@{self.commit}" if self.commit else self.url

    @classmethod
    def parse(cls, text: str) -> DirectUrl:
        """Parse the file's text; what is damaged counts as a package from an index."""
        try:
            values = json.loads(text or "{}")
            url = without_credentials(str(values.get("url", "")))
            vcs = values.get("vcs_info")
            if vcs:
                return cls(url, str(vcs["vcs"]), str(vcs["commit_id"]))
            if isinstance(values.get("dir_info"), dict):
                return cls(url, "editable" if values["dir_info"].get("editable") else "directory")
            hashes = (values.get("archive_info") or {}).get("hashes") or {}
            return cls(url, "archive" if "archive_info" in values else "", sha256=str(hashes.get("sha256", "")))
        except (ValueError, AttributeError, KeyError, TypeError, RecursionError):
            return cls()


def find_editable(name: str, direct_url: str) -> Editable | None:
    """Return an editable installation, from the text of its direct_url.json; None if it is something else."""
    direct = DirectUrl.parse(direct_url)
    is_editable = direct.kind == "editable"
    return Editable(normalize_package(name), direct.url.removeprefix("file://")) if is_editable else None


def parse_list(path: str, read: Callable[[str], str], exists: Callable[[str], bool], directory: str = "") -> Source:
    """Parse a requirements file or the output of `pip freeze`: pinned versions are kept where they fit.

    `path`, `read`, `exists`, `directory`: As for `parse_file`.

    Raises BadInputError as `parse_file`.
    """
    left_out: list[LeftOut] = []

    def read_rest(file: str) -> str:
        return "\n".join(_without_local(read(file).splitlines(), left_out, exists)) + "\n"

    return _loosen(parse_file(path, read_rest, exists, directory), left_out)


def _without_local(lines: Iterable[str], left_out: list[LeftOut], exists: Callable[[str], bool]) -> Iterator[str]:
    """Yield the lines of a file without editable installations, and with names for files that do not exist here."""
    for line in lines:
        editable, local = _EDITABLE.match(line), _LOCAL.match(line)
        if editable:
            left_out.append(LeftOut(name_of(editable[1]) or editable[1].strip(), "editable"))
            yield ""
        elif local and not (local[3].endswith(".whl") and exists(local[3])):
            yield f"{local[1]}{local[2] or ''}{local[4]}"  # conda writes the directory in which it was built
        else:
            yield line


def _loosen(asked: Requirements, left_out: Sequence[LeftOut]) -> Source:
    """Return a source in which `==` gives a version to keep where it fits, not a requirement."""
    lines, versions = [], []
    for line in asked.lines:
        pin = _PIN.fullmatch(line)
        lines.append(f"{pin[1]}{pin[2] or ''}{pin[4] or ''}" if pin else line)
        if pin:
            versions.append((normalize_package(pin[1]), pin[3]))
    rest = Requirements(tuple(lines), asked.constraints, asked.options)
    return Source(rest, tuple(versions), tuple(left_out))
