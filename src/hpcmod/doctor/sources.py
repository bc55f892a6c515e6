"""Check where the values of a site profile come from, and which of these documents changed since."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from hpcmod.core.process import run
from hpcmod.core.values.finding import FAIL, OK, UNKNOWN, WARN, Finding
from hpcmod.machine.values.profile import Profile
from hpcmod.machine.values.sources import OURS, Entry, ProfileSource, list_entries


def check_profile(profile: Profile, text: str) -> Iterator[Finding]:
    """Check that a comment says where each value is from; `hpcmod site check` has found the keys and values valid."""
    values = [entry for entry in list_entries(text) if entry.says_something]
    bare = [entry for entry in values if not entry.comment.strip()]
    cure = "Write above it who says so: a document with its address, or the command that printed it."
    for entry in bare:
        yield Finding(WARN, "no-source", f"{entry.key} has no comment", cure, profile.source, entry.line)
    count = f"{len(values)} values, {len(values) - len(bare)} with a comment about their source"
    yield Finding(OK, "profile", count, subject=profile.source)


def check_sources(profile: Profile, text: str, checkouts: Path | None) -> Iterator[Finding]:
    """Yield the sources of each value, and then of each source whether its file changed.

    `checkouts`: Directory with clones of the repositories as OWNER/NAME, bare or not; None to compare nothing.
    """
    tags = {
        key.removeprefix("sources."): str(place) for key, place in profile.values.items() if key.startswith("sources.")
    }
    known = {tag: ProfileSource.parse(place) for tag, place in tags.items()}
    used = [entry for entry in list_entries(text) if entry.says_something]
    yield from (_check_value(entry, known, profile.source) for entry in used)
    named = {tag for entry in used for tag in entry.tags}
    for tag, source in known.items():
        subject = f"{profile.source} [{tag}]"
        if f"[{tag}]" not in text:
            yield Finding(WARN, "source", f"{source} is not named by a comment", "Remove it.", subject)
        elif tag in named and checkouts and source.path:
            yield _compare(source, checkouts / source.repository, subject)


def _check_value(entry: Entry, known: Mapping[str, ProfileSource], file: str) -> Finding:
    """Return the sources of a value; a value without one, and a tag that `[sources]` does not have, fail."""
    absent = [tag for tag in entry.tags if tag not in known and tag != OURS]
    if absent or not entry.tags:
        found = f"{entry.key} names {', '.join(absent)}" if absent else f"{entry.key} has no source"
        cure = "Name a source of [sources] above it as [TAG], or [ours] for a choice."
        return Finding(FAIL, "source", found, cure, file, entry.line)
    listed = "; ".join(str(known[tag]) if tag in known else "a choice of hpcmod" for tag in entry.tags)
    return Finding(OK, "source", f"{entry.key}: {listed}", subject=file, line=entry.line)


def _compare(source: ProfileSource, checkout: Path, subject: str) -> Finding:
    """Compare the cited commit with the newest one of the file in a checkout."""
    if not checkout.is_dir():
        address = f"https://github.com/{source.repository}"
        cure = f"git clone --bare --filter=blob:none {address} {checkout}"
        return Finding(UNKNOWN, "changed", f"{checkout}: no such directory", cure, subject)
    place = checkout / ".git" if (checkout / ".git").exists() else checkout
    git = ["git", f"--git-dir={place}", "--literal-pathspecs"]
    cited, now = (
        run([*git, "ls-tree", commit, "--", source.path], timeout=60).stdout for commit in (source.commit, "HEAD")
    )
    if not cited:
        return Finding(UNKNOWN, "changed", f"{source.place} is not in {checkout}", "Fetch its newest commits.", subject)
    if cited == now:
        return Finding(OK, "changed", f"{source.place} is as in HEAD", subject=subject)
    newest = run([*git, "log", "-1", "--format=%h of %cs", "--abbrev=12", "HEAD", "--", source.path], timeout=60)
    found = f"{source.path} was {'changed' if now else 'removed'} by {newest.stdout.strip()}"
    cure = f"Read what it says now: git --git-dir={place} log -p {source.commit}..HEAD -- {source.path}"
    return Finding(WARN, "changed", found, cure, subject)
