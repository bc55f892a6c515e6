"""Lock files: a state as a requirements file with hashes. pip reads it too; hpcmod reproduces the state exactly."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hpcmod.core.errors import BadInputError
from hpcmod.packages.values.conda import NO_CONDA, CondaPart, parse_conda_lock, render_conda_lock
from hpcmod.packages.values.requirement import normalize_package
from hpcmod.packages.values.state import Locked, State

HEAD = "# hpcmod lock 1"

_PINNED = re.compile(
    r"([A-Za-z0-9][A-Za-z0-9._-]*)==([A-Za-z0-9][A-Za-z0-9.!+_-]*)((?:\s+--hash=sha256:[0-9a-f]{64})+)"
)
_HASH = re.compile(r"sha256:([0-9a-f]{64})")


@dataclass(frozen=True)
class Lock:
    """The content of a lock file."""

    requirements: tuple[str, ...]
    """The requirements as typed; without a header, each locked package."""
    pins: tuple[tuple[str, str, tuple[str, ...]], ...]
    """Normalized name, version and accepted sha256 of each package."""
    allowed: tuple[str, ...] = ()
    """Packages of the image that may be replaced."""
    conda: CondaPart = NO_CONDA
    """conda packages, which are comments for pip."""

    @property
    def lines(self) -> tuple[str, ...]:
        """Return the lines for pip, each with its hashes."""
        return tuple(
            " ".join([f"{name}=={version}", *(f"--hash=sha256:{one}" for one in hashes)])
            for name, version, hashes in self.pins
        )


def render_package_lock(state: State) -> str:
    """Return the lock file of a state.

    Raises
    ------
    BadInputError
        If a package has no hash, such as one from a git repository.
    """
    without = [one.pin for one in state.locked if not one.sha256]
    if without:
        raise BadInputError(
            f"no hash is known for {', '.join(without)}, so a lock file cannot guarantee the same files",
            "Install it from a package index or a wheel; for all packages that are there: hpcmod rebase NAME",
        )
    head = [HEAD, f"# container: {state.module}", f"# image: sha256:{state.image}", f"# python: {state.python}"]
    head += [f"# requirement: {one}" for one in state.requirements]
    head += [f"# replaces: {one}" for one in state.allowed]
    head += render_conda_lock(state.conda)
    lines = [f"{one.pin} --hash=sha256:{one.sha256}" for one in state.locked]
    return "\n".join([*head, *lines]) + "\n"


def parse_package_lock(text: str, origin: str) -> Lock:
    """Parse a lock file: one of `render_package_lock`, or any requirements file that pins each package with hashes.

    Raises
    ------
    BadInputError
        With each line that is not a pinned package with its sha256; or if the file has neither a package nor the
        header, such as the empty one that a shell leaves if `hpcmod packages NAME --lock > FILE` fails.
    """
    pins, faults = [], []
    joined = re.sub(r"\\\n", " ", text)
    for number, line in enumerate(joined.splitlines(), start=1):
        plain = re.sub(r"(?:^|(?<=\s))#.*$", "", line).strip()
        found = _PINNED.fullmatch(plain)
        if found:
            pins.append((normalize_package(found[1]), found[2], tuple(_HASH.findall(found[3]))))
        elif plain:
            faults.append(f"{origin}:{number}: {plain[:200]!r} is not NAME==VERSION --hash=sha256:...")
    if not pins and HEAD not in text.splitlines():
        faults = faults or [f"{origin}: not a lock file: no packages"]
    if faults:
        raise BadInputError("\n".join(faults), "Write one with: hpcmod packages NAME --lock > FILE")
    headers = tuple(re.findall(r"^# requirement: (.+)$", text, re.MULTILINE))
    allowed = tuple(re.findall(r"^# replaces: (.+)$", text, re.MULTILINE))
    return Lock(
        headers or tuple(f"{name}=={version}" for name, version, _ in pins),
        tuple(pins),
        allowed,
        parse_conda_lock(text, origin),
    )


def find_changed(old: tuple[Locked, ...], new: tuple[Locked, ...]) -> list[tuple[Locked, Locked]]:
    """Return the packages whose file has other content than before, which an index should never serve.

    Files are compared by name: another Python or platform gets another wheel of the same version.
    """
    known = {(one.name, one.version, _file_of(one)): one for one in old if one.sha256}
    pairs = ((known.get((one.name, one.version, _file_of(one))), one) for one in new if one.sha256)
    return [(before, after) for before, after in pairs if before and before.sha256 != after.sha256]


def _file_of(one: Locked) -> str:
    return one.url.rpartition("/")[2]
