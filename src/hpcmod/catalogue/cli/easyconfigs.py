"""Find what `eb` needs to install a container by name: its easyconfig and the directory of its image."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from hpcmod.catalogue.cli.containers import Here, name_variant, retired_error
from hpcmod.catalogue.cli.environment import environment_of_eb
from hpcmod.catalogue.finding.find import check_architecture, find_container
from hpcmod.catalogue.publishing.terms import check_terms
from hpcmod.catalogue.values.record import CatalogueRecord
from hpcmod.core.errors import BadInputError, NotFoundError
from hpcmod.modules import Installed, read_recipe


@dataclass(frozen=True)
class EasyconfigFile:
    """An easyconfig and the directory of its image."""

    easyconfig: Path
    images: Path
    module: str
    sha256: str = ""
    """Digest of the image; empty if unknown."""


def is_easyconfig(text: str) -> bool:
    """Return whether an argument is an easyconfig: it ends in .eb or is a path. NAME/VERSION is a container."""
    return text.endswith(".eb") or text.startswith(("./", "../", "/"))


def find_easyconfig(text: str) -> str:
    """Return the argument for `eb`: the absolute path of an easyconfig, or a bare name for the robot path.

    Raises BadInputError if a bare name is another user's file in the working directory (an easyconfig is code), or if
    it is not a text file (`eb` would wait for a FIFO, and read a device without end); NotFoundError if a path does not
    exist; a bare name may still be found by `eb`.
    """
    path = Path(text)
    if "/" in text:
        if not path.exists():
            raise NotFoundError(f"{text}: no such file", "List the containers of the catalogues: hpcmod ls")
    else:
        try:
            status = path.stat()
        except OSError:
            return text
        if status.st_uid not in (0, os.geteuid()) or status.st_mode & 0o002:
            raise BadInputError(
                f"{path.absolute()} belongs to another user or is world-writable, and an easyconfig is code",
                f"If you trust it, give its path: ./{text}",
            )
    if not path.is_dir():
        read_recipe(path)
    elif next(path.rglob("*.eb"), None) is None:
        raise NotFoundError(f"{text}: no easyconfig in this directory", "For an image layout: oci:DIRECTORY")
    return str(path.absolute())


def find_recipe(here: Here, text: str) -> EasyconfigFile:
    """Return the easyconfig of a published container; report a variant that fits the GPUs here better.

    Raises NotFoundError if the container does not exist, is retired, or has no easyconfig; LackingError if the user has
    not accepted its licence, or the image is for another architecture.
    """
    container = find_container(here.catalogues, text, machine=os.uname().machine, gpus=here.gpu_targets)
    check_architecture(here.catalogues, container, machine=os.uname().machine)
    record = container.read()
    if record.state == "retired":
        raise retired_error(record)
    check_terms(container.catalogue, record, os.environ)
    variant = name_variant(here, record.module, record.content.targets)
    if variant:
        here.say(variant)
    easyconfig = container.catalogue.easyconfigs_of(record.name) / record.publication.easyconfig
    if not record.publication.easyconfig or not easyconfig.is_file():
        raise NotFoundError(f"{record.module} has no easyconfig in {container.catalogue.directory}", "See: hpcmod info")
    return EasyconfigFile(easyconfig, container.catalogue.images, record.module, record.sha256)


def find_own_recipe(here: Here, own: Installed) -> EasyconfigFile:
    """Return the easyconfig to update an installation with: the catalogue's, else the one it was installed from.

    Raise NotFoundError if neither exists.
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
    """Return the environment for `eb`: easyblocks, easyconfigs, the site profile and the directories of images."""
    environ = environment_of_eb()
    places = [environ["EASYBUILD_ROBOT_PATHS"], *(str(place) for place in images)]
    environ["EASYBUILD_ROBOT_PATHS"] = ":".join(dict.fromkeys(places))
    return {**environ, "HPCMOD_SITE": site} if site else environ
