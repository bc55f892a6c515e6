"""Manifests, indexes and configurations of OCI images, and the choice of an index entry for a machine."""

from __future__ import annotations

import calendar
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hpcmod.core.errors import BadInputError, LackingError
from hpcmod.core.values.strict_json import JsonObject, Texts, load_json, show_value

MANIFEST_LIMIT = 4 << 20
"""Maximum size of a manifest or index in bytes, from the OCI distribution specification's limit for registries."""
CONFIG_LIMIT = 16 << 20
"""Maximum size of an image's configuration in bytes; real ones have some KiB."""

_MOST_ENTRIES = 1000  # layers, or entries of an index; Docker creates at most 127 layers
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_WORD = re.compile(r"[A-Za-z0-9._+-]*")
_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.\d+)?(?:[Zz]|([+-])(\d\d):(\d\d))")
_CONFIGS = ("application/vnd.oci.image.config.v1+json", "application/vnd.docker.container.image.v1+json")
_SIF_CONFIG = "application/vnd.sylabs.sif.config.v1+json"
_VARIANTS = {"arm": ("v7", "", "v6", "v5"), "arm64": ("v8", "")}
"""Architecture variants, best first; for other architectures the plainest is chosen, which runs everywhere."""


@dataclass(frozen=True)
class OciDescriptor:
    """A blob or manifest to fetch: media type, digest and size in bytes."""

    media_type: str
    digest: str
    """`sha256:` and 64 hexadecimal digits."""
    size: int
    """Bytes."""
    annotations: Texts = ()
    architecture: str = ""
    """For an index entry, its GOARCH name: amd64, arm64, ...; empty if not given."""
    os: str = ""
    variant: str = ""

    @property
    def platform(self) -> str:
        """Return the platform as container tools write it, e.g. linux/arm64/v8."""
        return "/".join(filter(None, (self.os or "?", self.architecture or "?", self.variant)))


@dataclass(frozen=True)
class Manifest:
    """One image, or an artifact."""

    config: OciDescriptor
    layers: tuple[OciDescriptor, ...]
    """Bottom layer first."""
    artifact_type: str = ""


@dataclass(frozen=True)
class ImageConfig:
    """How to run an image, and the digests of its unpacked layers."""

    architecture: str
    os: str
    created: int
    """Unix seconds; 0 if not known."""
    env: Texts
    entrypoint: tuple[str, ...]
    cmd: tuple[str, ...]
    labels: Texts
    diff_ids: tuple[str, ...]
    """Digests of the layers' tar streams, bottom layer first."""


@dataclass(frozen=True)
class SavedImage:
    """One image in an archive made by `docker save`: names of files in the archive."""

    config: str
    tags: tuple[str, ...]
    layers: tuple[str, ...]
    """Bottom layer first."""


def parse_manifest(text: bytes) -> Manifest | tuple[OciDescriptor, ...]:
    """Parse a manifest; for an index, return its entries.

    Raises BadInputError if it is neither, is damaged, or uses Docker's schema 1, which has no digests of layer
    contents.
    """
    data = JsonObject(load_json(text, "manifest", limit=MANIFEST_LIMIT), "manifest")
    if data.number("schemaVersion", 2) != 2:
        raise BadInputError("manifest: Docker schema 1 is not supported", "Push the image again with a current tool.")
    if "manifests" in data.values:
        return tuple(_make_descriptor(entry) for entry in data.objects("manifests", _MOST_ENTRIES))
    return Manifest(
        config=_make_descriptor(data.object("config")),
        layers=tuple(_make_descriptor(entry) for entry in data.objects("layers", _MOST_ENTRIES)),
        artifact_type=data.text("artifactType"),
    )


def choose_platform(entries: Sequence[OciDescriptor], architecture: str) -> OciDescriptor:
    """Choose the entry of an index for Linux on an architecture (amd64, arm64, ...).

    Raises LackingError if there is none, and lists the available platforms.
    """
    images = [entry for entry in entries if entry.platform != "unknown/unknown"]  # those are attestations
    fit = [entry for entry in images if entry.architecture == architecture and entry.os in ("linux", "")]
    if fit:
        return min(fit, key=lambda entry: _preference(entry, architecture))
    if len({entry.digest for entry in images}) == 1 and not images[0].architecture:
        return images[0]
    there = ", ".join(sorted({entry.platform for entry in images})) or "nothing"
    raise LackingError(
        f"no image for linux/{architecture}; available: {there}",
        "Use another tag, or an image built for this architecture.",
    )


def check_platform(config: ImageConfig, architecture: str) -> ImageConfig:
    """Check that an image's configuration is for this platform; accept one that does not name a platform.

    Raises LackingError, which names the image's platform.
    """
    known = replace(config, architecture=config.architecture or architecture)
    choose_platform([OciDescriptor("", "", 0, (), known.architecture, known.os)], architecture)
    return known


def _preference(entry: OciDescriptor, architecture: str) -> tuple[int, str]:
    known = _VARIANTS.get(architecture, ("",))
    return (known.index(entry.variant) if entry.variant in known else len(known), entry.variant)


def parse_config(text: bytes) -> ImageConfig:
    """Parse an image's configuration.

    Raises BadInputError if it is damaged.
    """
    data = JsonObject(load_json(text, "image configuration", limit=CONFIG_LIMIT), "image configuration")
    inner, rootfs = data.object("config"), data.object("rootfs")
    return ImageConfig(
        architecture=_word(data, "architecture"),
        os=_word(data, "os"),
        created=_parse_time(data.text("created")),
        env=tuple((name, value) for name, _, value in (entry.partition("=") for entry in inner.texts("Env"))),
        entrypoint=inner.texts("Entrypoint"),
        cmd=inner.texts("Cmd"),
        labels=inner.table("Labels"),
        diff_ids=tuple(_check_digest(rootfs, "diff_ids", digest) for digest in rootfs.texts("diff_ids")),
    )


def parse_saved(text: bytes) -> tuple[SavedImage, ...]:
    """Parse the manifest.json of an archive made by `docker save`.

    Raises BadInputError if it is damaged.
    """
    where = "manifest.json"
    data: Any = load_json(text, where, limit=MANIFEST_LIMIT)
    images = JsonObject({"images": data}, where).objects("images", _MOST_ENTRIES)
    return tuple(SavedImage(image.text("Config"), image.texts("RepoTags"), image.texts("Layers")) for image in images)


def check_is_image(manifest: Manifest) -> None:
    """Check that a manifest is a container image.

    Raises BadInputError, which says what to write instead if it is a SIF.
    """
    kinds = (manifest.artifact_type, manifest.config.media_type)
    if _SIF_CONFIG in kinds:
        raise BadInputError("this is a SIF, not an OCI image", "Write oras:// instead of docker://.")
    if manifest.config.media_type not in _CONFIGS:
        what = show_value(manifest.artifact_type or manifest.config.media_type)
        raise BadInputError(f"not a container image but {what}", "Check what was pushed there.")


def _make_descriptor(data: JsonObject) -> OciDescriptor:
    platform = data.object("platform")
    return OciDescriptor(
        media_type=data.text("mediaType"),
        digest=_check_digest(data, "digest", data.text("digest")),
        size=data.number("size"),
        annotations=data.table("annotations"),
        architecture=_word(platform, "architecture"),
        os=_word(platform, "os"),
        variant=_word(platform, "variant"),
    )


def _check_digest(data: JsonObject, key: str, text: str) -> str:
    if not _DIGEST.fullmatch(text):
        raise data.bad(key, "sha256: and 64 hexadecimal digits", text)
    return text


def _word(data: JsonObject, key: str) -> str:
    """Return a word such as an architecture name, checked because it is used in messages and commands."""
    text = data.text(key)
    if not _WORD.fullmatch(text):
        raise data.bad(key, "a name of letters and digits", text)
    return text


def _parse_time(text: str) -> int:
    """Return an RFC 3339 time as Unix seconds; 0 if invalid or before 1970 (Go's zero time is year 1)."""
    match = _TIME.fullmatch(text)
    if match is None:
        return 0
    *fields, sign, hours, minutes = match.groups()
    try:
        local = calendar.timegm(tuple(int(field) for field in fields))
    except ValueError:
        return 0
    east = (int(hours) * 60 + int(minutes)) * (60 if sign == "+" else -60) if sign else 0
    return max(0, local - east)
