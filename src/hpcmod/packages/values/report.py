"""Read pip's output: its report of an installation, and its reasons for refusing one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from hpcmod.core.errors import (
    BadInputError,
    CheckFailedError,
    HpcmodError,
    LackingError,
    NoSpaceError,
    NotFoundError,
    RemoteError,
    VerificationError,
)
from hpcmod.packages.values.plan import StatePlan
from hpcmod.packages.values.requirement import name_of, normalize_package, without_credentials, without_logins
from hpcmod.packages.values.state import Locked, State

_KEPT_LINES = 12
_CONSTRAINT = re.compile(r"The user requested \(constraint\) ([A-Za-z0-9._-]+)==(\S+)")
_UNAVAILABLE = re.compile(r"No matching distribution found for (.+)")
_NOWHERE = re.compile(r"no matching distributions available for your environment:\s+(\S+)")
_MISMATCH = ("THESE PACKAGES DO NOT MATCH THE HASHES", "Hashes are required")
_FULL = re.compile(r"\[Errno (?:28|122)\] ([^:\n]+)")  # ENOSPC and EDQUOT of Linux
_RETRIED = re.compile(r"((?:Failed to (?:resolve|establish)|certificate verify failed|[A-Z][a-z ]*timed out)[^()\"]*)")
_NETWORK = ("Connection", "Temporary failure in name resolution", "ReadTimeoutError", "SSLError")


def parse_pip_report(text: str | bytes, parent: State | None, now: str) -> tuple[Locked, ...]:
    """Return the packages in pip's installation report, sorted by name.

    `parent`: State whose packages keep the time at which they were first added to the set.

    Raises BadInputError if it is not a report that pip writes.
    """
    try:
        listed = json.loads(text)["install"]
        packages = [_make_locked(item, parent, now) for item in listed]
    except (ValueError, KeyError, TypeError, RecursionError) as err:
        raise BadInputError(f"pip's report cannot be read: {err}", "Update pip in the image to 22.2 or newer.") from err
    return tuple(sorted(packages, key=lambda package: package.name))


def _make_locked(item: dict[str, Any], parent: State | None, now: str) -> Locked:
    info, metadata = item["download_info"], item["metadata"]
    archive = info.get("archive_info") or {}
    sha256 = (archive.get("hashes") or {}).get("sha256") or str(archive.get("hash", "")).partition("sha256=")[2]
    name, version = normalize_package(str(metadata["name"])), str(metadata["version"])
    before = parent.find(name) if parent else None
    since = before.since if before and before.version == version else now
    return Locked(name, version, str(sha256), without_credentials(str(info["url"])), since=since)


def explain_full(output: str, temporary: str) -> NoSpaceError | None:
    """Return an error if a command in the container had no space for its files in the temporary directory."""
    full = _FULL.search(output)
    if full is None:
        return None
    return NoSpaceError(
        f"{temporary}: not enough space for pip's temporary files: {full[1]}",
        "Free some space there, or set TMPDIR to a directory on a larger disk.",
    )


def explain_failure(plan: StatePlan, output: str, *, temporary: str, unread: Sequence[str] = ()) -> HpcmodError:
    """Return an error for an installation that pip refused, with the option that helps.

    `temporary`: Directory of pip's files on the host.
    `unread`: Configuration of the host's pip that the one in the container does not read.
    """
    full = explain_full(output, temporary)
    if full:
        return full
    name = plan.target.module.partition("/")[0]
    lines = list(_reasons(output))
    detail = "\n".join(f"  {line}" for line in lines[-_KEPT_LINES:])
    constrained = list(dict.fromkeys(_CONSTRAINT.findall(output)))
    conflicts = [(package, version) for package, version in constrained if plan.target.find(package)]
    if conflicts:
        listed = ", ".join(f"{package} {version}" for package, version in conflicts)
        options = " ".join(f"--allow-replace {package}" for package, _ in conflicts)
        return BadInputError(
            f"{_asked(plan)} conflicts with {listed} of the image {plan.target.module}:\n{detail}",
            f"Choose other versions. To replace what the image has, which may break packages built for it: {options}",
        )
    nowhere = _NOWHERE.search(output)
    if nowhere and normalize_package(nowhere[1]) in [normalize_package(package) for package, _ in constrained]:
        return NotFoundError(
            f"{nowhere[1]}, which you have added before, is not where pip looks now",
            f"Name its --index or --wheel-dir again, or leave it out: hpcmod drop {name} {nowhere[1]}",
        )
    if constrained:
        listed = ", ".join(f"{package} {version}" for package, version in constrained)
        return BadInputError(
            f"{_asked(plan)} conflicts with {listed}, which you have added before:\n{detail}",
            f"Resolve all of your packages again: hpcmod rebase {name}",
        )
    if any(text in output for text in _MISMATCH):
        return VerificationError(
            f"a package does not match its hash:\n{detail}", "The file has changed since it was locked: do not use it."
        )
    if "Cannot find command 'git'" in output:
        return LackingError(
            f"{plan.target.module} has no git: pip in it cannot fetch {_asked(plan)}",
            f"git clone URL DIRECTORY; hpcmod add {name} --build ./DIRECTORY",
        )
    missing = _UNAVAILABLE.search(output)
    if missing and not any(text in output for text in _NETWORK):
        more = "" if plan.pip.build else " If it is published only as source, add --build."
        if any("--hash=" in line for line in plan.lines):
            more += " pip finds locked files on your indexes only: name theirs, --extra-index or --wheel-dir."
        return NotFoundError(
            f"no version of {missing[1]} fits Python {plan.target.python.version} of {plan.target.module}:\n{detail}",
            f"Check its name and version.{more}",
        )
    if missing or any(text in output for text in _NETWORK):
        retried = _RETRIED.search(output)
        more = f" pip in the container does not read {' and '.join(unread)}: name its index." if unread else ""
        reason = f" ({without_logins(retried[1])})" if retried else ""
        return RemoteError(
            f"the package index cannot be reached{reason}:\n{detail}",
            f"Check --index and the proxy; without a network use --wheel-dir DIRECTORY --no-index.{more}",
        )
    return CheckFailedError(f"pip failed in {plan.target.module}:\n{detail}", f"It ran: {' '.join(plan.argv)}")


def _asked(plan: StatePlan) -> str:
    before = plan.parent.requirements if plan.parent else ()
    new = [line for line in plan.requirements if line not in before]
    return ", ".join(name_of(line) or line for line in new or plan.requirements)


def _reasons(output: str) -> Iterator[str]:
    """Yield the lines of pip's output that say why it failed."""
    skipped = ("INFO:", "WARNING:", "Looking in ", "Requirement already satisfied", "Processing ", "[notice]")
    advice = ("To fix this you could", "1. loosen", "2. remove", "The conflict is caused by", "Additionally, some ")
    for line in output.splitlines():
        text = line.strip().removeprefix("ERROR: ")
        if (
            text
            and not text.startswith((*skipped, *advice))
            and not text.startswith(("ResolutionImpossible", "Cannot install"))
        ):
            yield text
