"""Requirements for pip, as users type them and as people write them into requirements files.

`check_line` decides which text may become a line of the files that pip reads, and is called where they are written.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from urllib.parse import unquote, urlsplit, urlunsplit

from packaging.markers import InvalidMarker, Marker
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from hpcmod.core.errors import BadInputError

_COMMENT = re.compile(r"(?:^|(?<=\s))#.*$")
_ONLY_COMMENT = re.compile(r"\s*#")
_INCLUDE = re.compile(r"(?:-r|--requirement|-c|--constraint)(?:[ =]\s*|(?=[^-\s]))(\S.*)")
_EDITABLE = re.compile(r"(?:-e|--editable)(?:[ =]\s*)(\S.*)")
_OPTION = re.compile(r"(--?[a-z][a-z-]*)(?:[ =]\s*(\S.*))?")
_NEXT_OPTION = re.compile(r"\s+(?=-)")
_HASHES = re.compile(r"(?:\s+--hash=[a-z0-9]+:[0-9a-f]+)+$")
_URL = re.compile(r"[a-z][a-z0-9+.-]*://\S+")
_LOGIN = re.compile(r"(?<=://)[^/\s@:]*:[^/\s@]*@")
VARIABLE = re.compile(r"\$\{([A-Z0-9_]+)\}")  # as pip has it
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.!+_-]*")

_PASSED = {
    "-i": "--index-url", "--index-url": "--index-url", "--pypi-url": "--index-url",
    "--extra-index-url": "--extra-index-url", "-f": "--find-links", "--find-links": "--find-links",
    "--trusted-host": "--trusted-host", "--no-index": "--no-index", "--pre": "--pre",
    "--prefer-binary": "--prefer-binary", "--require-hashes": "--require-hashes",
}  # fmt: skip
"""Options of a requirements file that are passed to pip, by the forms that people write."""

_IGNORED = {"--only-binary", "--no-binary", "--use-feature"}
"""Options of a requirements file that --build replaces."""

_NO_FILE = "Check the path. `pip freeze` writes such lines for conda's packages: use `pip list --format=freeze`."
_AS_PIP = "Write it as pip does: einops, 'transformers<5', a URL."

MOST_INCLUDED = 20
"""Maximum number of requirements files that may include one another."""


@dataclass(frozen=True)
class Requirements:
    """Requirements: lines for pip, and options that apply to all of them."""

    lines: tuple[str, ...] = ()
    """One requirement per line, in pip's syntax, with its markers and hashes."""
    constraints: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    """Options of pip, each one word: --index-url=..., --pre."""


NOTHING = Requirements()


def normalize_package(name: str) -> str:
    """Return the name of a package as package indexes compare it: lower case, with `-` for `.` and `_`."""
    return canonicalize_name(name)


@dataclass(frozen=True)
class _Line:
    """What a line for pip is about."""

    name: str
    """Normalized name of the package; empty for a URL or path without one."""
    place: str = ""
    """URL or absolute path; empty for a package of an index."""


@lru_cache(maxsize=4096)
def _parse_line(line: str) -> _Line:
    # pip reads lines as str.splitlines separates them, expands variables, and joins a line that ends in a backslash.
    if not line.isprintable() or "\\" in line or VARIABLE.search(line):
        raise BadInputError(f"{line!r} is not a requirement", _AS_PIP)
    text = _HASHES.sub("", line)
    is_url = _URL.match(text)
    if not (is_url or text.startswith("/")):
        try:
            parsed = Requirement(text)
        except InvalidRequirement as err:
            raise BadInputError(f"{line!r} is not a requirement", _AS_PIP) from err
        return _Line(normalize_package(parsed.name), parsed.url or "")
    place, _, marker = text.partition("; " if is_url else ";")
    place = place.rstrip()
    try:
        if marker:
            Marker(marker)
    except InvalidMarker as err:
        raise BadInputError(f"{line!r} is not a requirement: {marker!r} is not a marker", _AS_PIP) from err
    if (is_url and not _URL.fullmatch(place)) or _NEXT_OPTION.search(place) or _COMMENT.search(place):
        raise BadInputError(f"{line!r} is not a requirement", _AS_PIP)
    egg = re.search(r"(?:^|&)egg=([A-Za-z0-9._-]+)", place.partition("#")[2])
    wheel = re.search(r"(?:^|/)([A-Za-z0-9_.]+)-[^-/]+(?:-[^-/]+)*\.whl\b", place)
    named = egg or wheel
    if not is_url and place.endswith("]"):
        place = place[: place.rindex("[")]
    return _Line(normalize_package(named[1]) if named else "", place)


def check_line(line: str) -> str:
    """Return a line for pip if it is one requirement: no option, nothing that pip would read as a second line.

    Raises BadInputError if it is not.
    """
    _parse_line(line)
    return line


def is_package(name: str) -> bool:
    """Return whether a text is the name of a package."""
    return bool(_NAME.fullmatch(name))


def exact_line(name: str, version: str) -> str:
    """Return the requirement that only one version of a package meets; empty if they are not a name and a version."""
    if not (is_package(name) and _VERSION.fullmatch(version)):
        return ""
    try:
        Version(version)
    except InvalidVersion:
        return f"{name}==={version}"
    return f"{name}=={version}"


def needs_build(line: str) -> bool:
    """Return whether a requirement names something else than a wheel, which pip builds whatever its options say."""
    place = _parse_line(line).place
    if not place:
        return False
    scheme, _, rest = place.rpartition("://")
    path = unquote(urlsplit(place).path) if scheme else rest
    return "+" in scheme or posixpath.splitext(posixpath.basename(path))[1] != ".whl"


def place_of(line: str) -> str:
    """Return the path on the host that a requirement or an option names; empty if it names none."""
    value = line.partition("=")[2] if line.startswith("--") else _parse_line(line).place
    if value.startswith("file://"):
        return unquote(value.removeprefix("file://").partition("#")[0])
    return value if value.startswith("/") else ""


def check_option(word: str) -> str:
    """Return an option for pip as a line of its file.

    Raises BadInputError if it is not one of those that may be there.
    """
    name, equals, value = word.partition("=")
    if name not in _PASSED.values() or not word.isprintable() or "\\" in word:
        raise BadInputError(f"{word!r} is not an option for pip", "")
    quoted = value if VARIABLE.search(value) or not value else shlex.quote(value)
    return f"{name}{equals}{quoted}"


def name_of(line: str) -> str:
    """Return the normalized name of the package that a requirement is about; empty for a URL or path without one."""
    try:
        return _parse_line(line).name
    except BadInputError:
        return ""


def applies(line: str, python: str) -> bool:
    """Return whether the marker of a requirement holds on this machine with a version of Python, e.g. 3.12."""
    marker = line.partition(";")[2].partition(" --hash=")[0].strip()
    return not marker or Marker(marker).evaluate({"python_version": python, "python_full_version": f"{python}.0"})


def is_secret(option: str) -> bool:
    """Return whether an option has a login, or a variable that may be one."""
    return bool(VARIABLE.search(option)) or without_credentials(option) != option


def without_credentials(text: str) -> str:
    """Return a URL, or an option with one, without user name, password and query, which may be secret."""
    option, equals, url = text.partition("=") if re.match(r"--[a-z-]+=", text) else ("", "", text)
    if "://" not in url:
        return text
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{option}{equals}{urlunsplit((parts.scheme, host, parts.path, '', ''))}"


def without_logins(text: str) -> str:
    """Return a text, such as a requirement or a command, whose URLs have no password."""
    return _LOGIN.sub("", text)


def parse_typed(words: tuple[str, ...], directory: str, exists: Callable[[str], bool]) -> Requirements:
    """Parse requirements from a command line.

    `directory`: Working directory, which relative paths are relative to.
    `exists`: Returns whether a path exists on the host.

    Raises BadInputError if one is neither the requirement of a package nor a URL or path.
    """
    return Requirements(tuple(_check(word.strip(), (directory,), exists) for word in words))


def parse_file(
    path: str, read: Callable[[str], str], exists: Callable[[str], bool], directory: str = ""
) -> Requirements:
    """Parse a requirements file, with the files that it includes.

    `path`: Absolute path of the file.
    `read`: Returns the text of a file by its absolute path.
    `directory`: Working directory, where pip looks for packages with a relative path; those that are not there are
        searched next to the file that names them.

    Raises BadInputError with the file and line of each error: editable installations and unknown options.
    """
    return _parse(path, read, exists, directory, [])


def _parse(
    path: str, read: Callable[[str], str], exists: Callable[[str], bool], directory: str, above: list[str]
) -> Requirements:
    if path in above or len(above) >= MOST_INCLUDED:
        raise BadInputError(f"{path}: includes itself, by {above[-1] if above else path}", "Remove that line.")
    requirements, beside = Requirements(), posixpath.dirname(path)
    faults: list[BadInputError] = []
    for number, line in _logical_lines(read(path)):
        include = _INCLUDE.fullmatch(line)
        try:
            if include:
                more = _parse(_absolute(include[1], beside), read, exists, directory, [*above, path])
                if line.startswith(("-c", "--constraint")):
                    more = Requirements((), (*more.constraints, *more.lines), more.options)
            elif line.startswith("-"):
                places = (beside, directory or beside)
                more = join(*(_parse_option(option, places, exists) for option in _NEXT_OPTION.split(line)))
            else:
                more = Requirements((_check(line, (directory or beside, beside), exists),))
            requirements = join(requirements, more)
        except BadInputError as err:
            faults.append(err if include else BadInputError(f"{path}:{number}: {err.message}", err.cure))
    if faults:
        cures = dict.fromkeys(fault.cure for fault in faults if fault.cure)
        raise BadInputError("\n".join(fault.message for fault in faults), "\n".join(cures))
    return requirements


def join(*all_of: Requirements) -> Requirements:
    """Return all requirements together, each line once."""
    parts = zip(*((given.lines, given.constraints, given.options) for given in all_of))
    return Requirements(*(tuple(dict.fromkeys(chain.from_iterable(part))) for part in parts))


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """Return the lines of a requirements file with their numbers: continued lines joined, comments removed."""
    lines, waiting, start = [], "", 0
    for number, line in enumerate(text.lstrip("\ufeff").replace("\t", " ").splitlines(), start=1):
        start = start if waiting else number
        is_comment = _ONLY_COMMENT.match(line)
        if line.endswith("\\") and not is_comment:
            waiting += line[:-1]
            continue
        whole = _COMMENT.sub("", f"{waiting} {line}" if is_comment else waiting + line).strip()
        waiting = ""
        if whole:
            lines.append((start, whole))
    last = _COMMENT.sub("", waiting).strip()
    return [*lines, *([(start, last)] if last else [])]


def _parse_option(line: str, directories: Sequence[str], exists: Callable[[str], bool]) -> Requirements:
    editable = _EDITABLE.fullmatch(line)
    if editable:
        raise BadInputError(
            f"{line!r} is an editable installation, which cannot be packed into one file",
            f"Install a copy instead: remove `-e`, and use --build if {editable[1].split('#')[0]} has no wheel.",
        )
    match = _OPTION.fullmatch(line)
    name, value = (match[1], (match[2] or "").strip("\"'")) if match else (line, "")
    if name in _IGNORED:
        return Requirements()
    if name not in _PASSED:
        raise BadInputError(f"option {line!r} is not supported", "Remove it; --help lists the options of `hpcmod add`.")
    if value and _PASSED[name] == "--find-links" and "://" not in value:
        return Requirements(options=(f"--find-links={_find(value, directories, exists)}",))
    return Requirements(options=(f"{_PASSED[name]}={value}" if value else _PASSED[name],))


def _absolute(written: str, directory: str) -> str:
    return posixpath.normpath(posixpath.join(directory, written.strip().strip("\"'")))


def _find(written: str, directories: Sequence[str], exists: Callable[[str], bool]) -> str:
    """Return the absolute path of a file or directory in the first directory that has it, else in the first one."""
    places = [_absolute(written, directory) for directory in directories]
    return next(filter(exists, places), places[0])


def _check(line: str, directories: Sequence[str], exists: Callable[[str], bool]) -> str:
    """Return a requirement with its path, if it is one, made absolute."""
    target, separator, marker = line.partition(";")
    plain = target.strip()
    if plain.endswith("]") and "[" in plain and "]" not in plain[plain.rindex("[") : -1]:
        plain = plain[: plain.rindex("[")]
    is_path = plain.startswith((".", "/")) or (plain.endswith((".whl", ".tar.gz", ".zip")) and "://" not in plain)
    path = _find(plain, directories, exists) if is_path else ""
    if is_path and not exists(path):
        raise BadInputError(f"{plain}: no such file or directory", "Check the path.")
    checked = check_line(f"{path}{target.strip()[len(plain) :]}{separator}{marker}" if is_path else line)
    local = place_of(checked)
    if local and not exists(local):
        raise BadInputError(f"{local}: no such file or directory", _NO_FILE)
    return checked
