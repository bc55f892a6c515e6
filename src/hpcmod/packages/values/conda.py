"""conda packages of a state: what was requested, from which channels, and what was installed."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote, urlsplit

from hpcmod.core.errors import BadInputError

DEFAULT_CHANNELS = ("conda-forge",)

CONDA_IN_CONTAINER = "/opt/hpcmod-conda"
"""Prefix in an image of the conda packages that `hpcmod bake --conda` added, unless the image had one of its own."""

_SPEC = re.compile(
    r"(?:(?P<channel>[^\s:\[\]]+?)(?:/(?:noarch|linux-[a-z0-9]+))?::)?"
    r"(?P<name>[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?)\s*(?:[<>=!~\[\s].*)?"
)
_CHANNEL_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_TOKEN = re.compile(r"/t/[^/]+/")
_FILE = re.compile(r"([^/]+)-([^-/]+)-([^-/]+)\.(?:conda|tar\.bz2)")


@dataclass(frozen=True)
class CondaPackage:
    """A conda package that was installed, and the file it came from."""

    name: str
    version: str
    build: str
    url: str
    """Where it came from, without credentials."""
    sha256: str
    """Of the downloaded file."""
    size: int = 0
    """Installed bytes."""
    since: str = ""
    """Time at which this version was first added to the set, in UTC."""
    not_run: tuple[str, ...] = ()
    """Its scripts for installation and activation, which hpcmod does not run."""

    @property
    def pin(self) -> str:
        """Return the requirement that only this build meets."""
        return f"{self.name} =={self.version} {self.build}"


@dataclass(frozen=True)
class CondaPart:
    """The conda packages of a state, or of a plan for one."""

    requirements: tuple[str, ...] = ()
    """As typed, one per package."""
    channels: tuple[str, ...] = ()
    """URLs, or names of channels."""
    packages: tuple[CondaPackage, ...] = ()
    """Sorted by name. In a plan: those whose versions are kept, or exactly those of a lock file."""
    exact: bool = False
    """Whether `packages` are installed as they are, without asking the channels for other versions."""

    @property
    def names(self) -> frozenset[str]:
        """Return the names of the required packages."""
        return frozenset(map(conda_name, self.requirements))

    def find(self, name: str) -> CondaPackage | None:
        """Return an installed package by its name."""
        return next((package for package in self.packages if package.name == name.lower()), None)


NO_CONDA = CondaPart()


def conda_name(spec: str) -> str:
    """Return the name of the package that a requirement is about; empty if it is not one."""
    match = _SPEC.fullmatch(spec.strip())
    return match["name"].lower() if match else ""


def _channel_of(spec: str) -> str:
    """Return the channel that a requirement names, as in `bioconda::samtools`; empty if it names none."""
    match = _SPEC.fullmatch(spec.strip())
    return (match["channel"] or "") if match else ""


def parse_conda_specs(words: Sequence[str], *, python: bool = False) -> tuple[str, ...]:
    """Return requirements from a command line.

    `python`: Whether Python may be one of them.

    Raises BadInputError if one is not a requirement of conda.
    """
    specs = tuple(dict.fromkeys(word.strip() for word in words))
    for word in specs:
        if not conda_name(word) or not word.isprintable():
            raise BadInputError(
                f"{word!r} is not a conda package", "Write it as conda does: samtools, 'samtools=1.19'."
            )
        if conda_name(word) == "python" and not python:
            raise BadInputError("Python is the image's and cannot be replaced", "Choose an image with another Python.")
    return specs


def parse_channels(words: Sequence[str], directory: str, exists: Callable[[str], bool]) -> tuple[str, ...]:
    """Return channels from a command line: URLs, names and directories, which become URLs.

    `directory`: Working directory, which relative paths are relative to.
    `exists`: Returns whether a path exists on the host.

    Raises BadInputError if one is neither, or has a password, which must not get into records and lock files.
    """
    return tuple(dict.fromkeys(_parse_channel(word.strip(), directory, exists) for word in words))


def _parse_channel(word: str, directory: str, exists: Callable[[str], bool]) -> str:
    path = posixpath.normpath(posixpath.join(directory, word))
    if word and "://" not in word and exists(path):
        return f"file://{quote(path)}"
    if "://" not in word and not _CHANNEL_NAME.fullmatch(word):
        raise BadInputError(f"--channel {word}: not a URL, name or directory", "Check the channel.")
    parts = urlsplit(word)
    if "://" in word and parts.scheme not in ("https", "http", "file"):
        raise BadInputError(f"--channel {word}: {parts.scheme} is not supported", "Use https, http or file.")
    if "@" in parts.netloc or parts.query or _TOKEN.search(f"{parts.path}/"):
        raise BadInputError(
            f"--channel {parts.scheme}://{parts.netloc.rpartition('@')[2]}...: has a password or token",
            "Put it into ~/.netrc, or into the file that $RATTLER_AUTH_FILE names.",
        )
    return word.rstrip("/")


def merge_conda(before: CondaPart, added: CondaPart, dropped: Sequence[str] = (), *, keep: bool = True) -> CondaPart:
    """Return the plan for the conda packages of a state: requirements with those before, and packages to keep."""
    if added.exact:
        return added
    gone = {name.lower() for name in dropped} | added.names
    kept = tuple(requirement for requirement in before.requirements if conda_name(requirement) not in gone)
    requirements = tuple(dict.fromkeys((*kept, *added.requirements)))
    if not requirements:
        return NO_CONDA
    given = (*added.channels, *before.channels) or DEFAULT_CHANNELS
    channels = tuple(dict.fromkeys((*given, *filter(None, map(_channel_of, requirements)))))
    pins = tuple(package for package in before.packages if package.name not in added.names) if keep else ()
    return CondaPart(requirements, channels, pins)


def package_of_url(url: str, sha256: str) -> CondaPackage:
    """Return the package whose file has a URL.

    Raises BadInputError if the URL is not that of a conda package.
    """
    match = _FILE.fullmatch(url.rpartition("/")[2])
    if not match or urlsplit(url).scheme not in ("https", "http", "file") or "@" in urlsplit(url).netloc:
        raise BadInputError(f"{url[:200]!r} is not the URL of a conda package", "Write it again.")
    return CondaPackage(match[1].lower(), match[2], match[3], url, sha256)


def check_conda(part: CondaPart) -> None:
    """Check the conda packages of a record or lock file, which other users may have written.

    Raises BadInputError if a requirement, a channel or a package is not one.
    """
    parse_conda_specs(part.requirements, python=True)
    parse_channels(part.channels, "/", lambda _: False)
    for package in part.packages:
        known = package_of_url(package.url, package.sha256)
        if package.sha256 and not _SHA256.fullmatch(package.sha256):
            raise BadInputError(f"{package.name}: sha256: {package.sha256[:80]!r} is not 64 hexadecimal digits")
        if (known.name, known.version, known.build) != (package.name, package.version, package.build):
            raise BadInputError(f"{package.pin!r} is not the conda package of {package.url}")


def with_times(packages: Sequence[CondaPackage], before: CondaPart, now: str) -> tuple[CondaPackage, ...]:
    """Return packages sorted by name, those with the same build as before with the time of that."""
    timed = []
    for package in sorted(packages, key=lambda package: package.name):
        old = before.find(package.name)
        timed.append(replace(package, since=old.since if old and old.pin == package.pin else now))
    return tuple(timed)
