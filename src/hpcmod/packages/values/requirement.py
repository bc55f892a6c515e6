"""Requirements as users type them, and requirements files as people write them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit, urlunsplit

from hpcmod.core.errors import BadInputError

_NAME = re.compile(r"\s*([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?:\[[^\]]*\]\s*)?(?=[<>=!~;@(]|$)")
_COMMENT = re.compile(r"(?:^|(?<=\s))#.*$")
_ONLY_COMMENT = re.compile(r"\s*#")
_INCLUDE = re.compile(r"(?:-r|--requirement|-c|--constraint)(?:[ =]\s*|(?=[^-\s]))(\S.*)")
_EDITABLE = re.compile(r"(?:-e|--editable)(?:[ =]\s*)(\S.*)")
_OPTION = re.compile(r"(--?[a-z][a-z-]*)(?:[ =]\s*(\S.*))?")
_NEXT_OPTION = re.compile(r"\s+(?=-)")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")

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
    places: tuple[str, ...] = field(default=())
    """Directories and files on the host that a line names, which pip must be able to read."""


NOTHING = Requirements()


def normalize_package(name: str) -> str:
    """Return the name of a package as package indexes compare it: lower case, with `-` for `.` and `_`."""
    return re.sub(r"[-_.]+", "-", name).lower()


def name_of(line: str) -> str:
    """Return the normalized name of the package that a requirement is about; empty for a URL or path without one."""
    found = _NAME.match(line)
    if found:
        return normalize_package(found[1])
    egg = re.search(r"(?:^|&)egg=([A-Za-z0-9._-]+)", line.partition("#")[2])
    wheel = re.search(r"(?:^|/)([A-Za-z0-9_.]+)-[^-/]+(?:-[^-/]+)*\.whl\b", line)
    chosen = egg or wheel
    return normalize_package(chosen[1]) if chosen else ""


def without_credentials(text: str) -> str:
    """Return a URL, or an option with one, without user name, password and query, which may be secret."""
    option, equals, url = text.partition("=") if re.match(r"--[a-z-]+=", text) else ("", "", text)
    if "://" not in url:
        return text
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{option}{equals}{urlunsplit((parts.scheme, host, parts.path, '', ''))}"


def parse_typed(words: tuple[str, ...], directory: str, exists: Callable[[str], bool]) -> Requirements:
    """Parse requirements from a command line.

    Parameters
    ----------
    directory
        Working directory, which relative paths are relative to.
    exists
        Returns whether a path exists on the host.

    Raises
    ------
    BadInputError
        If one is neither the requirement of a package nor a URL or path.
    """
    found = [_check(word.strip(), (directory,), exists) for word in words]
    return Requirements(tuple(line for line, _ in found), places=tuple(place for _, place in found if place))


def parse_file(
    path: str, read: Callable[[str], str], exists: Callable[[str], bool], directory: str = ""
) -> Requirements:
    """Parse a requirements file, with the files that it includes.

    Parameters
    ----------
    path
        Absolute path of the file.
    read
        Returns the text of a file by its absolute path.
    directory
        Working directory, where pip looks for packages with a relative path; those that are not there are searched
        next to the file that names them.

    Raises
    ------
    BadInputError
        With the file and line of each error: editable installations and unknown options.
    """
    return _parse(path, read, exists, directory, [])


def _parse(
    path: str, read: Callable[[str], str], exists: Callable[[str], bool], directory: str, above: list[str]
) -> Requirements:
    if path in above or len(above) >= MOST_INCLUDED:
        raise BadInputError(f"{path}: includes itself, by {above[-1] if above else path}", "Remove that line.")
    found, beside = Requirements(), posixpath.dirname(path)
    faults: list[BadInputError] = []
    for number, line in _logical_lines(read(path)):
        include = _INCLUDE.fullmatch(line)
        try:
            if include:
                below = _parse(_absolute(include[1], beside), read, exists, directory, [*above, path])
                more = _as_constraints(below) if line.startswith(("-c", "--constraint")) else below
            elif line.startswith("-"):
                places = (beside, directory or beside)
                more = join(*(_parse_option(one, places, exists) for one in _NEXT_OPTION.split(line)))
            else:
                one, place = _check(line, (directory or beside, beside), exists)
                more = Requirements((one,), places=(place,) if place else ())
            found = join(found, more)
        except BadInputError as err:
            faults.append(err if include else BadInputError(f"{path}:{number}: {err.message}", err.cure))
    if faults:
        cures = dict.fromkeys(fault.cure for fault in faults if fault.cure)
        raise BadInputError("\n".join(fault.message for fault in faults), "\n".join(cures))
    return found


def join(*all_of: Requirements) -> Requirements:
    """Return all requirements together, each line once."""

    def merged(what: Callable[[Requirements], tuple[str, ...]]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(word for one in all_of for word in what(one)))

    return Requirements(
        merged(lambda one: one.lines),
        merged(lambda one: one.constraints),
        merged(lambda one: one.options),
        merged(lambda one: one.places),
    )


def _as_constraints(found: Requirements) -> Requirements:
    return Requirements((), (*found.constraints, *found.lines), found.options, found.places)


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """Return the lines of a requirements file with their numbers: continued lines joined, comments removed."""
    found, waiting, start = [], "", 0
    for number, line in enumerate(text.lstrip("\ufeff").splitlines(), start=1):
        start = start if waiting else number
        is_comment = _ONLY_COMMENT.match(line)
        if line.endswith("\\") and not is_comment:
            waiting += line[:-1]
            continue
        whole = _COMMENT.sub("", f"{waiting} {line}" if is_comment else waiting + line).strip()
        waiting = ""
        if whole:
            found.append((start, whole))
    last = _COMMENT.sub("", waiting).strip()
    return [*found, *([(start, last)] if last else [])]


def _parse_option(line: str, directories: Sequence[str], exists: Callable[[str], bool]) -> Requirements:
    editable = _EDITABLE.fullmatch(line)
    if editable:
        raise BadInputError(
            f"{line!r} is an editable installation, which cannot be packed into one file",
            f"Install a copy instead: remove `-e`, and use --build if {editable[1].split('#')[0]} has no wheel.",
        )
    found = _OPTION.fullmatch(line)
    name, value = (found[1], (found[2] or "").strip("\"'")) if found else (line, "")
    if name in _IGNORED:
        return Requirements()
    if name not in _PASSED:
        raise BadInputError(f"option {line!r} is not supported", "Remove it; --help lists the options of `hpcmod add`.")
    if value and _PASSED[name] == "--find-links" and "://" not in value:
        place = _find(value, directories, exists)
        return Requirements(options=(f"--find-links={place}",), places=(place,))
    return Requirements(options=(f"{_PASSED[name]}={value}" if value else _PASSED[name],))


def _absolute(written: str, directory: str) -> str:
    return posixpath.normpath(posixpath.join(directory, written.strip().strip("\"'")))


def _find(written: str, directories: Sequence[str], exists: Callable[[str], bool]) -> str:
    """Return the absolute path of a file or directory in the first directory that has it, else in the first one."""
    places = [_absolute(written, directory) for directory in directories]
    return next(filter(exists, places), places[0])


def _check(line: str, directories: Sequence[str], exists: Callable[[str], bool]) -> tuple[str, str]:
    """Return a requirement with its path, if it is one, made absolute; and that path on the host, or nothing."""
    if not line or line.startswith("-") or _CONTROL.search(line):
        raise BadInputError(f"{line!r} is not a requirement", "Write it as pip does: einops, 'transformers<5', a URL.")
    url = line.split(";")[0].split("#")[0]
    if "://" in url:
        local = url.partition("file://")[2].strip()
        if local and not exists(unquote(local)):
            raise BadInputError(f"{local}: no such file or directory", _NO_FILE)
        return line, ""
    target, separator, marker = line.partition(";")
    plain = target.strip()
    if plain.endswith("]") and "[" in plain and "]" not in plain[plain.rindex("[") : -1]:
        plain = plain[: plain.rindex("[")]
    place = _find(plain, directories, exists)
    if plain.startswith((".", "/")) or plain.endswith((".whl", ".tar.gz", ".zip")):
        if not exists(place):
            raise BadInputError(f"{plain}: no such file or directory", "Check the path.")
        return f"{place}{target.strip()[len(plain) :]}{separator}{marker}", place
    if not _NAME.match(line):
        raise BadInputError(f"{line!r} is not a requirement", "Write it as pip does: einops, 'transformers<5', a URL.")
    return line, ""
