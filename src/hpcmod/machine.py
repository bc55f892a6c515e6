"""Know the machine: choose the site profile that is asked for, or the one that fits, and read it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hpcmod.errors import BadInputError, NotFoundError
from hpcmod.model.site import Profile, Site, make_site, parse_profile
from hpcmod.resources import site_profiles

SYSTEM_PROFILE = Path("/etc/hpcmod/site.toml")
"""A site's own profile, on every node."""

FALLBACK = "generic"


def load_site(asked: str | None, environ: Mapping[str, str]) -> Site:
    """Load the profile of this machine, with those it extends.

    Parameters
    ----------
    asked
        Name or file that an easyconfig or a flag gives; it is overruled by $HPCMOD_SITE.
    environ
        The environment; only HPCMOD_SITE and XDG_CONFIG_HOME are read from it.

    Raises
    ------
    HpcmodError
        If there is no such profile, or it is not valid.
    """
    choice = environ.get("HPCMOD_SITE") or asked or _own_profile(environ) or _detect()
    return make_site(_with_bases(_read(choice)))


def _own_profile(environ: Mapping[str, str]) -> str | None:
    home = environ.get("XDG_CONFIG_HOME") or (f"{environ['HOME']}/.config" if environ.get("HOME") else "")
    places = ([Path(home, "hpcmod", "site.toml")] if home else []) + [SYSTEM_PROFILE]
    return next((str(place) for place in places if place.is_file()), None)


def _detect() -> str:
    """Name of the first shipped profile that knows a path of this machine."""
    for name, text in sorted(site_profiles().items()):
        profile = parse_profile(text, name)
        if any(Path(place).exists() for place in profile.values.get("detect.paths", ())):
            return name
    return FALLBACK


def _read(choice: str) -> Profile:
    shipped = site_profiles()
    if choice in shipped:
        return parse_profile(shipped[choice], choice)
    path = Path(choice)
    if not path.is_file():
        raise NotFoundError(
            f"there is no site profile {choice!r}: no such file, and the shipped ones are {', '.join(sorted(shipped))}",
            "Name one of these, or a TOML file of your own, in HPCMOD_SITE.",
        )
    try:
        return parse_profile(path.read_text(encoding="utf-8"), str(path))
    except UnicodeDecodeError as err:
        raise BadInputError(f"site profile {path} is not text in UTF-8: {err}", "Save it as UTF-8.") from err


def _with_bases(profile: Profile) -> list[Profile]:
    """Put before a profile those it extends, the most general first."""
    chain = [profile]
    while chain[0].extends:
        base = _read(chain[0].extends)
        if base.name in {known.name for known in chain}:
            raise BadInputError(
                f"site profile {profile.source} extends itself, through {base.name}", "Break the circle."
            )
        chain.insert(0, base)
    return chain
