"""List the tags of a repository in a registry, with size, date and architectures of each image."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import partial

from hpcmod.errors import HpcmodError, NotFoundError
from hpcmod.image.web.repository import USUAL, Access, Repository
from hpcmod.model.images.oci import Manifest, OciDescriptor, choose_platform, is_image, parse_config, parse_manifest
from hpcmod.model.images.reference import ImageReference
from hpcmod.model.images.tags import newer_tags, sort_tags

_AT_ONCE = 4  # tags that are read at the same time
_CREATED = "org.opencontainers.image.created"


@dataclass(frozen=True)
class Tag:
    """One tag of a repository."""

    name: str
    digest: str = ""
    """Digest of the manifest or index that it means now."""
    size: int = 0
    """Bytes to fetch for this machine's architecture, or for the first one; 0 if not known."""
    created: str = ""
    """Date, e.g. 2026-11-23; empty if not known."""
    architectures: tuple[str, ...] = ()
    """GOARCH names; empty for a SIF, whose manifest does not have it."""
    problem: str = ""
    """Why it cannot be read; empty if it can."""


@dataclass(frozen=True)
class TagList:
    """Tags of a repository."""

    tags: tuple[Tag, ...]
    total: int
    """Number of tags, also of those that are not listed."""


@dataclass(frozen=True)
class NewerImage:
    """What a registry has instead of an image."""

    digest: str
    """Digest that its tag means now; empty if the tag is gone."""
    tags: tuple[str, ...]
    """Tags of newer releases of the same kind, the highest first."""


def list_tags(
    reference: ImageReference,
    *,
    architecture: str,
    most: int = 0,
    only: str = "",
    access: Access = USUAL,
) -> TagList:
    """List the tags of a repository, the highest versions first.

    Parameters
    ----------
    reference
        docker://... or oras://...; its tag is ignored.
    architecture
        GOARCH whose image gives the size.
    most
        Largest number of tags that are read; 0: all.
    only
        The only tag to list; empty: all.

    Raises
    ------
    HpcmodError
        If the repository or that tag does not exist, or the registry refuses or fails.
    """
    with closing(access.session_factory()) as session:
        repository = Repository(reference, session, access)
        names = [only] if only else sort_tags(repository.tags())
        chosen = names[:most] if most else names
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            tags = tuple(threads.map(partial(_read, repository, architecture), chosen))
    if only and tags[0].problem:
        raise NotFoundError(tags[0].problem, f"List all tags with: hpcmod search {_name(reference)}")
    return TagList(tags, len(names))


def find_newer(reference: ImageReference, *, access: Access = USUAL) -> NewerImage:
    """Ask a registry what the tag of a reference means now, and for newer tags of the same kind.

    Raises
    ------
    HpcmodError
        If the repository does not exist, or the registry refuses or fails.
    """
    with closing(access.session_factory()) as session:
        repository = Repository(reference, session, access)
        names = repository.tags()
        digest = repository.manifest(reference.tag)[0] if reference.tag in names else ""
    return NewerImage(digest, tuple(newer_tags(names, reference.tag)))


def _name(reference: ImageReference) -> str:
    return f"{reference.kind}://{reference.registry}/{reference.repository}"


def _read(repository: Repository, architecture: str, name: str) -> Tag:
    try:
        return _read_tag(repository, architecture, name)
    except HpcmodError as err:
        return Tag(name, problem=err.message)


def _read_tag(repository: Repository, architecture: str, name: str) -> Tag:
    digest, text = repository.manifest(name)
    found = parse_manifest(text)
    architectures: tuple[str, ...] = ()
    if not isinstance(found, Manifest):
        entries = [entry for entry in found if entry.platform != "unknown/unknown"]
        architectures = tuple(dict.fromkeys(entry.architecture for entry in entries if entry.architecture))
        found = parse_manifest(repository.manifest(_choose(entries or found, architecture).digest)[1])
    if not isinstance(found, Manifest):
        return Tag(name, digest, architectures=architectures)
    tag = Tag(name, digest, sum(layer.size for layer in found.layers), architectures=architectures)
    if is_image(found):
        config = parse_config(repository.config(found.config))
        date = f"{datetime.fromtimestamp(config.created, timezone.utc):%Y-%m-%d}" if config.created else ""
        return replace(tag, created=date, architectures=architectures or tuple(filter(None, (config.architecture,))))
    return replace(tag, created=dict(found.annotations).get(_CREATED, "")[:10])


def _choose(entries: Sequence[OciDescriptor], architecture: str) -> OciDescriptor:
    try:
        return choose_platform(entries, architecture)
    except HpcmodError:  # none for this machine
        return entries[0]
