"""Where a user's private copies of containers go: an EasyBuild prefix below a directory from the site profile."""

from __future__ import annotations

import grp
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from hpcmod.core.errors import BadInputError, LackingError
from hpcmod.core.fs.reading import read_text
from hpcmod.core.values.text import absolute
from hpcmod.machine.values.site import Site
from hpcmod.modules.values.install_record import MODULES

_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")
_CHOSEN_BY = ("EASYBUILD_PREFIX", "EASYBUILD_INSTALLPATH", "EASYBUILD_INSTALLPATH_SOFTWARE")
"""If one of these is set, the user has already chosen a prefix."""

_LIMIT = 1 << 20  # bytes read from a file


def choose_prefix(site: Site, environ: Mapping[str, str], *, asked: Path | None = None) -> Path | None:
    """Choose the prefix for `eb`; None leaves the choice to EasyBuild, whose default is in $HOME.

    `asked`: The prefix requested by the user.

    Raises BadInputError if the site's directories leave several prefixes to choose from; LackingError if the requested
    prefix, or a directory that EasyBuild's variables name, cannot be written to or created.
    """
    if asked:
        _check_writable(asked.absolute())
        return asked.absolute()
    chosen_by = ", ".join(name for name in _CHOSEN_BY if environ.get(name))
    for path in (configured_places(None, environ) or ()) if chosen_by else ():
        _check_writable(path, f" ({chosen_by})")
    if chosen_by or _is_configured(environ):
        return None
    prefixes = tuple(dict.fromkeys(own_prefixes(site, environ)))
    used = [prefix for prefix in prefixes if (prefix / MODULES).is_dir()] or list(prefixes)
    if len(used) > 1:
        listed = "\n".join(f"  {prefix}" for prefix in used)
        raise BadInputError(
            f"your own copy could go to several directories:\n{listed}",
            f"Choose one: --prefix {used[0]}, or export EASYBUILD_PREFIX={used[0]}",
        )
    return used[0] if used else None


def configured_places(prefix: Path | None, environ: Mapping[str, str]) -> tuple[Path, Path] | None:
    """Return where a prefix, or EasyBuild's variables, put installations and module trees; None if not known."""
    if prefix:
        return prefix / "software", prefix / "modules"
    base = environ.get("EASYBUILD_INSTALLPATH") or environ.get("EASYBUILD_PREFIX")
    names = ("software", "modules")
    found = [environ.get(f"EASYBUILD_INSTALLPATH_{name.upper()}") or (base and f"{base}/{name}") for name in names]
    software, modules = (absolute(path) for path in found)
    if not software or not modules or any(environ.get(f"EASYBUILD_SUBDIR_{name.upper()}") for name in names):
        return None
    return Path(software), Path(modules)


def source_directories(prefix: Path | None, environ: Mapping[str, str]) -> list[Path]:
    """Return the directories in which EasyBuild looks for sources, as far as its variables say."""
    base = prefix or environ.get("EASYBUILD_PREFIX") or f"{environ.get('HOME', '')}/.local/easybuild"
    return [Path(path).absolute() for path in (environ.get("EASYBUILD_SOURCEPATH") or f"{base}/sources").split(":")]


def _check_writable(prefix: Path, chosen_by: str = "") -> None:
    """Check that a directory, or its nearest existing parent, is writable."""
    nearest = next(path for path in (prefix, *prefix.parents) if os.path.lexists(path))  # else it may be forbidden
    if _is_writable(nearest):
        return
    reason = f"{nearest} is not a directory" if not nearest.is_dir() else f"you cannot write to {nearest}"
    cure = "Choose a directory that you can write to: hpcmod install --prefix DIRECTORY"
    raise LackingError(f"cannot install below {prefix}{chosen_by}: {reason}", cure)


def own_prefixes(site: Site, environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield the writable prefixes that the site profile's directories give this user, best first.

    A directory that is not writable itself may contain one per project, named after the project's group, e.g.
    /project/project_465000001.
    """
    user = environ.get("USER") or _user()
    for text in site.images.places:
        place = _expand(text, environ)
        if place is None:
            continue
        for directory in [place] if _is_writable(place) else _of_projects(place):
            mine = directory if user in directory.parts else directory / user
            yield mine / "easybuild"


def own_module_trees(site: Site, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the existing directories of modulefiles below those prefixes."""
    trees = (prefix / MODULES for prefix in own_prefixes(site, environ))
    return tuple(tree for tree in trees if tree.is_dir())


def _expand(text: str, environ: Mapping[str, str]) -> Path | None:
    """Substitute the variables in a path; None if one is not set."""
    names = [one or other for one, other in _VARIABLE.findall(text)]
    if not all(environ.get(name) for name in names):
        return None
    return Path(_VARIABLE.sub(lambda match: environ[match[1] or match[2]], text))


def _of_projects(place: Path) -> Iterator[Path]:
    """Yield the writable directories below a directory that are named after one of this user's groups.

    Listing the directory instead could return thousands of directories of other projects.
    """
    for number in os.getgroups():
        with suppress(KeyError):
            directory = place / grp.getgrgid(number).gr_name
            if _is_writable(directory):
                yield directory


def _is_writable(directory: Path) -> bool:
    return directory.is_dir() and os.access(directory, os.W_OK | os.X_OK)


def _is_configured(environ: Mapping[str, str]) -> bool:
    """Return whether an EasyBuild configuration file sets the installation directory."""
    home = environ.get("XDG_CONFIG_HOME") or f"{environ.get('HOME', '')}/.config"
    named = environ.get("EASYBUILD_CONFIGFILES", "").split(",")
    for name in [*named, f"{home}/easybuild/config.cfg"]:
        with suppress(OSError):
            if name and re.search(r"^\s*(?:prefix|installpath)\s*=", read_text(name, _LIMIT, errors="replace"), re.M):
                return True
    return False


def _user() -> str:
    from getpass import getuser  # slow to import, and rarely needed

    return getuser()
