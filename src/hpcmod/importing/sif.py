"""SIFs without a recipe: create an easyconfig from the file's name and the image itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from hpcmod.core.errors import BadInputError, HpcmodError
from hpcmod.core.fs.checksums import file_sha256
from hpcmod.core.values.facts import ImageFacts
from hpcmod.images import Sif
from hpcmod.importing.formats import ImportFormat, Watch
from hpcmod.importing.outcome import (
    Findings,
    ImportedEasyconfig,
    Outcome,
    full_description,
    refused,
    secure_homepage,
    settle_names,
)
from hpcmod.modules import find_recipes
from hpcmod.modules.values.easyconfig import EasyconfigText
from hpcmod.modules.values.image_name import FRAMEWORKS, choose_module_class, split_name

_TOOL_TWICE = re.compile(
    r"(?:[a-z0-9]+-)?(?P<name>[A-Za-z][A-Za-z0-9_]*)-(?P<between>.+)-(?P=name)-[vV]?(?P<version>\d[A-Za-z0-9_.+]*)"
    r"(?:-(?:dockerhash|sha256)-[0-9a-f]+)?"
)
"""LUMI's names: lumi-pytorch-rocm-6.2.4-python-3.12-pytorch-v2.7.1-dockerhash-0123456789ab."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_OCI = "org.opencontainers.image."
_PACKAGES = {"pytorch": "torch", "tensorflow-rocm": "tensorflow"}
"""Packages whose names differ from the usual name of the software."""


def import_sif(paths: Iterable[Path], watch: Watch) -> Iterator[Outcome]:
    """Create an easyconfig for each SIF, and for all below directories.

    Notes
    -----
    Each is hashed when it is requested: finished ones are kept if the user interrupts a run over many large ones.
    """
    described = [_describe(path) for named in paths for path in find_recipes(named, ".sif")]
    for outcome in settle_names(described):
        yield _with_checksum(outcome, watch) if isinstance(outcome, ImportedEasyconfig) else outcome


def _describe(path: Path) -> Outcome:
    try:
        return describe_sif(Sif(path).facts(), path)
    except (HpcmodError, OSError) as err:
        return refused(path, err)


def _with_checksum(described: ImportedEasyconfig, watch: Watch) -> Outcome:
    path = Path(described.origin)
    try:
        with watch(f"hashing {path.name}") as progress:
            checksum = file_sha256(path, progress)
    except (HpcmodError, OSError) as err:
        return refused(path, err)
    return replace(described, easyconfig=replace(described.easyconfig, checksum=checksum))


def describe_sif(facts: ImageFacts, path: Path) -> ImportedEasyconfig:
    """Return the easyconfig of a SIF, without its checksum.

    Raises BadInputError if neither its name nor its content gives a version, or its path is not valid as an image path.
    """
    if ":" in str(path.absolute().parent):
        raise BadInputError(f"{path}: the runtime takes a colon for the end of a path: rename the directory", "")
    said = Findings()
    name, version, suffix = _name_and_version(path, facts, said)
    if ":" in path.name:
        said.notes.append("its name contains a colon, which ends a path for the runtime: the module has its own copy")
    labels = dict(facts.labels)
    described = labels.get(f"{_OCI}description", "") or _contents(name, version, facts)
    easyconfig = EasyconfigText(
        name=name,
        version=version,
        versionsuffix=suffix,
        image=str(path.absolute()),
        description=full_description(described, said),
        homepage=secure_homepage(labels.get(f"{_OCI}url", "") or labels.get(f"{_OCI}source", ""), said),
        parameters=(("install_mode", "copy"),) if ":" in path.name else (),
        moduleclass=choose_module_class(facts.packages),
    )
    return said.outcome(path, easyconfig, namespace=(path.absolute().parent.name,))


def _name_and_version(path: Path, facts: ImageFacts, said: Findings) -> tuple[str, str, str]:
    """Return name, version and version suffix; note where they do not come from the file's name.

    Notes
    -----
    The label comes last, because an image inherits it from its base image: 22.04 is Ubuntu's.
    """
    stem = path.name.removesuffix(".sif")
    twice = _TOOL_TWICE.fullmatch(stem)
    if twice:
        return twice["name"], twice["version"], f"-{twice['between']}"
    split = split_name(stem)
    if split:
        return (*split, "")
    if not _NAME.fullmatch(stem):
        raise BadInputError(f"{path}: {stem[:80]!r} is not valid as a module name: rename it to NAME_VERSION.sif", "")
    package = _version_of(_PACKAGES.get(stem.lower(), stem.lower()), facts)
    if package:
        said.notes.append(f"the version is that of its package {package}")
        return stem, package, ""
    label = dict(facts.labels).get(f"{_OCI}version", "")
    if _NAME.fullmatch(label):
        said.notes.append(f"the version comes from a label, perhaps inherited from the base image: {label}")
        return stem, label, ""
    raise BadInputError(f"{path}: neither its name nor its content gives a version: rename it to NAME_VERSION.sif", "")


def _version_of(package: str, facts: ImageFacts) -> str:
    return next((each.version for each in facts.packages if each.name.lower() == package), "")


def _contents(name: str, version: str, facts: ImageFacts) -> str:
    """Return a description of an image that has none, from its content."""
    python = [f"Python {facts.python.version}"] if facts.python else []
    told = [f"{name} {_version_of(name, facts)}" for name in FRAMEWORKS if _version_of(name, facts)]
    return f"{name} {version}" + (f", with {', '.join([*told, *python])}" if told or python else "")


FORMAT = ImportFormat(
    "Make an easyconfig for each SIF, from its name, contents and checksum.",
    import_sif,
    examples=("/shared/images --output ours", "pytorch_2.7.1.sif --dry-run"),
)
