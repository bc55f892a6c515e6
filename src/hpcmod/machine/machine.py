"""Choose and read this machine's site profile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from hpcmod.core.errors import BadInputError, LackingError, NotFoundError
from hpcmod.core.fs.reading import UnusableFileError, read_text
from hpcmod.core.resources import site_profiles
from hpcmod.core.values.text import absolute
from hpcmod.core.values.trust import ANYTHING, TrustPolicy
from hpcmod.machine.values.profile import Profile, make_site, parse_profile
from hpcmod.machine.values.site import Site

SYSTEM_PROFILE = Path("/etc/hpcmod/site.toml")
"""The site's own profile, on every node."""

_LARGEST = 1 << 20  # bytes of a site profile
FALLBACK = "generic"

MACHINE = "machine"
"""Value of `extends` in a profile that adds to the profile this machine would otherwise use."""


class Choice(NamedTuple):
    """A profile that may be used, and why."""

    profile: str
    """Name of a shipped profile, or a file."""
    reason: str
    """What selected it, for messages, e.g. `$HPCMOD_SITE`."""


class Machine(NamedTuple):
    """The site and how its profile was chosen."""

    site: Site
    """With the trust policy of SYSTEM_PROFILE, whichever profile was chosen."""
    choice: Choice
    profiles: tuple[Profile, ...]
    """The profiles that make up the site, the most general first."""

    def origin(self, key: str) -> str:
        """Return the origin of a value, by its dotted key: file and line of the last profile that sets it, or empty."""
        return next((profile.origins[key] for profile in reversed(self.profiles) if key in profile.origins), "")


def load_site(asked: str | None, environ: Mapping[str, str], easyconfig: str = "") -> Site:
    """Return the profile of this machine, merged with those it extends; see find_machine.

    `easyconfig`: Easyconfig that names the profile: a relative path is relative to its directory, not the working
        directory.
    """
    if asked and easyconfig and is_profile_file(asked):
        asked = str(Path(easyconfig).absolute().parent / asked)
    return find_machine(asked, environ).site


def find_machine(asked: str | None, environ: Mapping[str, str], *, flag: str | None = None) -> Machine:
    """Choose the profile of this machine, and load it with those it extends.

    `asked`: Name or file from an easyconfig; $HPCMOD_SITE overrides it.
    `environ`: The environment; HPCMOD_SITE, XDG_CONFIG_HOME, HOME and the variables that profiles are detected by are
        read.
    `flag`: Name or file from the command line; it overrides everything else.

    Raises HpcmodError if the profile does not exist or is not valid.
    """
    choices = _choices(asked, environ, flag)
    choice = next(choices)
    profiles = _with_bases(_read(choice.profile), (other.profile for other in choices))
    site = make_site(profiles)._replace(profile=_named_again(choice.profile, profiles[-1]))
    policy = system_policy(environ)
    if policy not in (None, site.images.trust):
        trust = site.images.trust._replace(also=policy)
        site = site._replace(images=site.images._replace(trust=trust))
    return Machine(site, choice, tuple(profiles))


def _named_again(choice: str, profile: Profile) -> str:
    """Return by what a chosen profile is found again from anywhere: a name, or an absolute path.

    A file that only renames another profile means that one: the file may be temporary.
    """
    beside = Path()
    if set(profile.values) == {"name", "extends"} and profile.extends != MACHINE:
        choice, beside = profile.extends, Path(choice).parent
    return str((beside / choice).absolute()) if is_profile_file(choice) else choice


def system_policy(environ: Mapping[str, str]) -> TrustPolicy | None:
    """Return the trust policy of SYSTEM_PROFILE, which no other profile can relax; None if it has none.

    Raises HpcmodError if that profile is not valid: without it, nothing could be trusted.
    """
    if not SYSTEM_PROFILE.is_file():
        return None
    rest = (choice.profile for choice in detect(environ))
    policy = make_site(_with_bases(_read(str(SYSTEM_PROFILE)), rest)).images.trust
    return None if policy == ANYTHING else policy


def _choices(asked: str | None, environ: Mapping[str, str], flag: str | None) -> Iterator[Choice]:
    """Yield the choices by precedence: flag, environment, easyconfig, the user's file, the site's, detected."""
    for name, reason in (
        (flag, "--site"),
        (environ.get("HPCMOD_SITE"), "$HPCMOD_SITE"),
        (asked, "the easyconfig"),
    ):
        if name:
            yield Choice(name, reason)
    with suppress(LackingError):
        if own_profile(environ).is_file():
            yield Choice(str(own_profile(environ)), "the user's file")
    if SYSTEM_PROFILE.is_file():
        yield Choice(str(SYSTEM_PROFILE), "the site's file")
    yield from detect(environ)


def own_profile(environ: Mapping[str, str]) -> Path:
    """Return the file of the user's own profile, which need not exist.

    Raises LackingError if there is no home directory.
    """
    return _home_of(environ, "XDG_CONFIG_HOME", ".config") / "site.toml"


def state_directory(environ: Mapping[str, str]) -> Path:
    """Return this user's state directory, which is not created.

    Raises LackingError if there is no home directory.
    """
    return _home_of(environ, "XDG_STATE_HOME", ".local/state")


def _home_of(environ: Mapping[str, str], variable: str, usual: str) -> Path:
    """Return hpcmod's directory in one of the user's, which a variable names."""
    home = absolute(environ.get("HOME"))
    directory = absolute(environ.get(variable)) or (f"{home}/{usual}" if home else "")
    if not directory:
        raise LackingError("home directory unknown", f"Set HOME, or {variable}.")
    return Path(directory, "hpcmod")


def detect(environ: Mapping[str, str]) -> Iterator[Choice]:
    """Yield the shipped profiles that match this machine, the most specific first, then the fallback."""
    fits = []
    for name, text in site_profiles().items():
        if "detect" not in text:  # it names no `detect.*`; parsing all of them takes a fifth of a short command
            continue
        profile = _read(name)
        reason = _fits(profile, environ)
        if reason:
            fits.append((-len(_with_bases(profile, iter(()))), name, reason))
    yield from (Choice(name, reason) for _, name, reason in sorted(fits))
    yield Choice(FALLBACK, "no other shipped profile matches")


def _fits(profile: Profile, environ: Mapping[str, str]) -> str:
    """Return the evidence that this is the profile's machine; empty if it is not."""
    paths = [place for place in profile.values.get("detect.paths", ()) if Path(place).exists()]
    wanted = profile.values.get("detect.variables", ())
    variables = [f"${name} is {value}" for name, value in wanted if environ.get(name) == value]
    return next(iter([*(f"{place} exists" for place in paths), *variables]), "")


def _read(choice: str, *, named_in: str = "--site or HPCMOD_SITE", beside: Path = Path()) -> Profile:
    """Read a profile: a shipped one by name, or a file, relative to the directory `beside`."""
    shipped = site_profiles()
    if choice in shipped:
        return parse_profile(shipped[choice], f"{choice}.toml")
    path = beside / choice
    if is_profile_file(choice) and not path.is_file():
        raise NotFoundError(
            f"site profile {path}: no such file", "To write one of this machine: hpcmod site new -o FILE"
        )
    if not is_profile_file(choice):
        from difflib import get_close_matches

        near = [f"Did you mean {name}? " for name in get_close_matches(choice, shipped, n=1)]
        raise NotFoundError(
            f"site profile {choice!r}: not one of the shipped profiles: {', '.join(sorted(shipped))}",
            f"{''.join(near)}Name one of these, or your own TOML file, in {named_in}.",
        )
    try:
        return parse_profile(read_text(path, _LARGEST), str(path))
    except UnusableFileError as err:
        raise BadInputError(f"site profile {path}: {err.strerror}", "Choose a TOML file.") from err
    except PermissionError as err:
        cure = f"Ask its owner to let you read it (ls -l {path}), or name another profile with --site or HPCMOD_SITE."
        raise LackingError(f"site profile {path}: {err.strerror}", cure) from err
    except UnicodeDecodeError as err:
        raise BadInputError(f"site profile {path} is not valid UTF-8: {err}", "Save it as UTF-8.") from err


def is_profile_file(choice: str) -> bool:
    """Return whether a string names a file rather than a shipped profile: it has a slash or ends in .toml."""
    return "/" in choice or choice.endswith(".toml")


def _with_bases(profile: Profile, rest: Iterator[str]) -> list[Profile]:
    """Return a profile after those it extends, the most general first; MACHINE means the first of the rest."""
    chain = [profile]
    while chain[0].extends:
        name = next(rest, FALLBACK) if chain[0].extends == MACHINE else chain[0].extends
        base = _read(name, named_in=f"`extends` of {chain[0].source}", beside=Path(chain[0].source).parent)
        if base.source in {known.source for known in chain}:
            raise BadInputError(
                f"site profile {profile.source} extends itself, through {base.source}", "Remove the circular `extends`."
            )
        chain.insert(0, base)
    return chain
