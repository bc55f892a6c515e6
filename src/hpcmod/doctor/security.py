"""Check who else can change a directory and its contents, and which trust policy applies on this machine."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from hpcmod.core.errors import HpcmodError
from hpcmod.core.fs.ownership import group_name, user_name
from hpcmod.core.values.finding import FAIL, OK, WARN, Finding
from hpcmod.core.values.trust import TrustRule
from hpcmod.machine import SYSTEM_PROFILE, find_machine, system_policy

_EXAMPLES = 5
"""Number of paths listed for each kind of problem."""

_MOST = 1_000_000  # entries to check

_PROBLEMS = {
    "world-writable": (FAIL, "every user of the machine can change it", "chmod o-w"),
    "set-user-ID or set-group-ID program": (FAIL, "it runs with the rights of its owner or group", "chmod ug-s"),
    "special file": (FAIL, "a FIFO, socket or device: reading it may hang", "rm"),
    "directory that you may not enter": (
        WARN,
        "its contents were not checked",
        "run this as its owner or root: hpcmod doctor --security",
    ),
    "link out of the directory": (WARN, "others may be able to change its target", "rm, or replace it with a copy"),
    "owner outside the group": (FAIL, "its owner has no write access here", "chown, or rm"),
    "writable by another group": (WARN, "members of another group can change it", "chgrp, or chmod g-w"),
    "group-writable directory without set-group-ID": (WARN, "new files get another group", "chmod g+s"),
}
"""Level, reason and cure for each kind of problem, in the order of the report."""


def check_directory(directory: Path) -> Iterator[Finding]:
    """Check a shared directory and everything below it; links are not followed.

    Raises OSError if it cannot be read.
    """
    root = directory.stat()
    yield Finding(OK, "directory", _describe(root), subject=str(directory))
    yield from _check_above(directory)
    found: dict[str, list[str]] = {kind: [] for kind in _PROBLEMS}
    whole, looked = os.path.realpath(directory), 0
    team = _members(root)
    for path, status in _walk(whole):
        looked += 1
        for kind in _problems(path, status, root, team=team, whole=whole):
            found[kind].append(path)
    for kind, (level, why, cure) in _PROBLEMS.items():
        if paths := found[kind]:
            rest = ", ..." * (len(paths) > _EXAMPLES)
            shown = ", ".join(os.path.relpath(path, whole) for path in paths[:_EXAMPLES])
            yield Finding(level, kind, f"{len(paths)} ({why}): {shown}{rest}", f"{cure} PATH")
    if looked >= _MOST:
        checked = f"only the first {_MOST} files were checked"
        yield Finding(WARN, "directory", checked, "Check its subdirectories separately.", subject=str(directory))


def _describe(status: os.stat_result) -> str:
    mode, group = stat.S_IMODE(status.st_mode), group_name(status.st_gid)
    who = f"and the group {group} " if mode & stat.S_IWGRP else ""
    return f"mode {mode:04o}; its owner {user_name(status.st_uid)} {who}can change it"


def _check_above(directory: Path) -> Iterator[Finding]:
    """Find parent directories in which other users can replace this directory."""
    owner = directory.stat().st_uid
    for above in Path(os.path.realpath(directory)).parents:
        status = above.stat()
        if _others_write(status) or status.st_uid not in (0, owner):
            seen = f"mode {stat.S_IMODE(status.st_mode):04o}, owner {user_name(status.st_uid)}"
            cure = f"chmod +t {above}, or remove write access"
            yield Finding(
                WARN, "directories above", f"{seen}: others can replace everything below it", cure, str(above)
            )


def _others_write(status: os.stat_result) -> bool:
    """Return whether other users can replace files in a directory, or write to a file."""
    return bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not status.st_mode & stat.S_ISVTX)


def _problems(path: str, status: os.stat_result, root: os.stat_result, *, team: set[int], whole: str) -> Iterator[str]:
    mode = status.st_mode
    if stat.S_ISLNK(mode):
        target = os.path.realpath(path)
        if target != whole and not target.startswith(f"{whole}/"):
            yield "link out of the directory"
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        yield "special file"
    if mode & stat.S_IWOTH and not (stat.S_ISDIR(mode) and mode & stat.S_ISVTX):
        yield "world-writable"
    if stat.S_ISREG(mode) and mode & (stat.S_ISUID | stat.S_ISGID) and mode & 0o111:
        yield "set-user-ID or set-group-ID program"
    if status.st_uid not in team:
        yield "owner outside the group"
    if mode & stat.S_IWGRP and status.st_gid != root.st_gid:
        yield "writable by another group"
    if stat.S_ISDIR(mode) and not os.access(path, os.R_OK | os.X_OK):
        yield "directory that you may not enter"
    if stat.S_ISDIR(mode) and mode & stat.S_IWGRP and not mode & stat.S_ISGID:
        yield "group-writable directory without set-group-ID"


def _walk(whole: str) -> Iterator[tuple[str, os.stat_result]]:
    yield whole, os.lstat(whole)
    waiting, looked = [whole], 0
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                looked += 1
                if looked >= _MOST:
                    return
                status = entry.stat(follow_symlinks=False)
                yield entry.path, status
                if stat.S_ISDIR(status.st_mode) and os.access(entry.path, os.R_OK | os.X_OK):
                    waiting.append(entry.path)


def _members(root: os.stat_result) -> set[int]:
    """Return the ids of users who may own files here: root, the owner, and the group's members if it can write."""
    found = {0, root.st_uid}
    if root.st_mode & stat.S_IWGRP:
        try:
            names = grp.getgrgid(root.st_gid).gr_mem
        except KeyError:
            names = []
        found |= {user.pw_uid for user in pwd.getpwall() if user.pw_gid == root.st_gid or user.pw_name in names}
    return found


def check_policy(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Check this machine's trust policy: who can change it, and whether another profile is used as well."""
    profile = SYSTEM_PROFILE
    try:
        policy, found = system_policy(environ), find_machine(None, environ)
    except HpcmodError as err:
        yield Finding(FAIL, "trust policy", err.message, err.cure)
        return
    if policy is None:
        cure = 'Add one: [trust] needs = ["digest"]'
        yield Finding(WARN, "trust policy", f"{profile} has none: every image is trusted", cure)
        return
    yield Finding(OK, "trust policy", f"{profile}; by default it requires {', '.join(policy.needs) or 'nothing'}")
    rules = [*policy.rules, TrustRule("*", keys=policy.keys, trusted_root=policy.trusted_root)]
    files = [file for rule in rules for file in (*rule.keys, rule.trusted_root) if file]
    for path in dict.fromkeys([str(profile), *files]):
        yield from _check_guarded(path)
    if found.site.images.trust.also:
        used = f"the profile {found.choice.profile} ({found.choice.reason}) is used"
        yield Finding(WARN, "trust policy", f"{used}; it can make the policy stricter, but not weaker")


def _check_guarded(path: str) -> Iterator[Finding]:
    """Report users other than root who can change a file of the trust policy."""
    try:
        whole = Path(os.path.realpath(path))
        for part in (whole, *whole.parents):
            status = part.stat()
            if status.st_uid != 0 or _others_write(status):
                mode, owner = stat.S_IMODE(status.st_mode), user_name(status.st_uid)
                seen = f"{part} has mode {mode:04o} and owner {owner}: users other than root can change what is trusted"
                yield Finding(FAIL, "trust policy", seen, f"chown root {part}; chmod go-w {part}", subject=path)
    except OSError as err:
        yield Finding(FAIL, "trust policy", f"cannot be read: {err.strerror}", "Fix the trust policy.", subject=path)
