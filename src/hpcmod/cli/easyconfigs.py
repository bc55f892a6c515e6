"""What `eb` is given to install a container by its name: an easyconfig of a catalogue, and where the image lies."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from hpcmod.catalogue.find import find_container
from hpcmod.catalogue.terms import check_accepted
from hpcmod.cli.containers import Here, say_end
from hpcmod.cli.environment import environment_of_eb
from hpcmod.errors import BadInputError, NotFoundError
from hpcmod.install.installed import Installed
from hpcmod.model.catalogue.record import CatalogueRecord


@dataclass(frozen=True)
class EasyconfigFile:
    """An easyconfig, and the directory of its image."""

    easyconfig: Path
    images: Path
    module: str
    sha256: str = ""
    """Of the image; empty: not known."""


def is_easyconfig(text: str) -> bool:
    """Return whether a word names an easyconfig: it ends in .eb or is a path. NAME/VERSION is a container."""
    return text.endswith(".eb") or text.startswith(("./", "../", "/"))


def find_easyconfig(text: str) -> str:
    """Return what `eb` is given for an easyconfig: the absolute path of a file, else its name, for the robot path.

    Raises
    ------
    BadInputError
        If a bare name is a file of another user in the working directory: an easyconfig is code.
    NotFoundError
        If there is nothing at a path; a bare name may still be found by `eb`.
    """
    path = Path(text)
    if "/" in text:
        if not path.exists():
            raise NotFoundError(f"{text}: no such file", "See what a catalogue has with: hpcmod ls")
    else:
        try:
            found = path.stat()
        except OSError:
            return text
        if found.st_uid not in (0, os.geteuid()) or found.st_mode & 0o002:
            raise BadInputError(
                f"{path.absolute()} belongs to another user or is writable by all, and an easyconfig is code",
                f"If you trust it, name it with its path: ./{text}",
            )
    return str(path.absolute())


def find_recipe(here: Here, text: str) -> EasyconfigFile:
    """Find the easyconfig of a container.

    Raises
    ------
    NotFoundError
        If there is no such container, or it is retired, or has no easyconfig.
    LackingError
        If this user has not accepted its licence.
    """
    container = find_container(here.catalogues, text)
    record = container.read()
    if record.state == "retired":
        raise say_end(record)
    check_accepted(record, os.environ)
    easyconfig = container.catalogue.easyconfigs_of(record.name) / record.easyconfig
    if not record.easyconfig or not easyconfig.is_file():
        raise NotFoundError(f"{record.module} has no easyconfig in {container.catalogue.directory}", "See: hpcmod info")
    return EasyconfigFile(easyconfig, container.catalogue.images, record.module, record.sha256)


def find_own_recipe(here: Here, own: Installed) -> EasyconfigFile:
    """Find the easyconfig to refresh an installation by: that of the catalogue, else the one it was made by.

    Raises
    ------
    NotFoundError
        If there is neither.
    """
    for catalogue in here.catalogues:
        record: CatalogueRecord | None = catalogue.find(own.name, own.version)
        if record and record.state != "retired":
            return find_recipe(here, own.module)
    kept = sorted((own.root / "easybuild").glob("*.eb"))
    if not kept:
        raise NotFoundError(f"{own.module}: no easyconfig in {own.root}/easybuild", "eb X.eb --rebuild")
    return EasyconfigFile(kept[0], own.root, own.module)


def eb_environ(site: str | None, images: Iterable[Path]) -> dict[str, str]:
    """Make the environment of `eb`: our easyblocks and easyconfigs, the site profile, and where images lie."""
    environ = environment_of_eb()
    places = [environ["EASYBUILD_ROBOT_PATHS"], *(str(place) for place in images)]
    environ["EASYBUILD_ROBOT_PATHS"] = ":".join(dict.fromkeys(places))
    return {**environ, "HPCMOD_SITE": site} if site else environ
