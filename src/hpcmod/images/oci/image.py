"""An immutable view of an OCI image, independent of its source: a registry, a layout, or an archive."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import BinaryIO, cast

from hpcmod.core.errors import BadInputError, VerificationError
from hpcmod.core.values.reference import ImageReference
from hpcmod.images.values.oci import ImageConfig, Manifest, OciDescriptor, check_is_image, check_platform, parse_config


@dataclass(frozen=True)
class Layer:
    """One layer: a tar stream, usually compressed."""

    digest: str
    """Digest of the stored bytes; empty if only `diff_id` is known."""
    size: int
    """Stored size in bytes."""
    media_type: str
    diff_id: str
    """Digest of the uncompressed tar stream; empty if unknown."""
    open: Callable[[], BinaryIO] = field(repr=False, compare=False)
    """Returns a new stream of the stored bytes; may be called several times. Reading it to the end raises
    VerificationError if the digest or size differs; a stream that is not read to the end is not verified."""


@dataclass(frozen=True)
class OciImage:
    """An image for one platform."""

    reference: ImageReference
    digest: str
    """Digest of the manifest; empty if there is no manifest."""
    config: ImageConfig
    config_text: bytes = field(repr=False)
    """The configuration's stored bytes."""
    layers: tuple[Layer, ...]
    """From the bottom layer up."""


def make_image(
    reference: ImageReference,
    manifest: Manifest,
    config_text: bytes,
    *,
    digest: str,
    architecture: str,
    open_blob: Callable[[OciDescriptor], BinaryIO],
) -> OciImage:
    """Make an image from a verified manifest and configuration.

    `digest` is that of the manifest; `architecture` is the required GOARCH; `open_blob` returns a new stream that
    verifies a layer's bytes.

    Raises BadInputError if this is not a container image, or manifest and configuration have different numbers of
    layers, and LackingError if it is for another architecture.
    """
    check_is_image(manifest)
    config = check_platform(parse_config(config_text), architecture)

    diff_ids = match_diff_ids(config, len(manifest.layers))
    layers = (
        Layer(layer.digest, layer.size, layer.media_type, diff_id, partial(open_blob, layer))
        for layer, diff_id in zip(manifest.layers, diff_ids)
    )
    return OciImage(reference, digest, config, config_text, tuple(layers))


def match_diff_ids(config: ImageConfig, layers: int) -> tuple[str, ...]:
    """Return the digest of each layer's tar stream; empty strings if the configuration lists none.

    Raises BadInputError if the configuration lists more or fewer digests than layers.
    """
    if len(config.diff_ids) not in (0, layers):
        raise BadInputError(f"the image has {layers} layers, its configuration lists {len(config.diff_ids)}")
    return config.diff_ids or ("",) * layers


def verified(stream: BinaryIO, *, digest: str, size: int, what: str) -> BinaryIO:
    """Wrap a stream so that its last byte is returned only after size and digest are verified.

    An empty digest and a size of -1 stand for any; `what` is the stream's name in messages.
    """
    return cast(BinaryIO, VerifiedStream(stream, digest=digest, size=size, what=what))


class VerifiedStream(io.RawIOBase):
    """Counts, hashes and verifies the bytes that are read; see `verified`."""

    def __init__(self, stream: BinaryIO, *, digest: str, size: int, what: str) -> None:
        super().__init__()
        self._stream = stream
        self._digest, self._size, self._what = digest, size, what
        self._sha256 = hashlib.sha256()
        self._done = 0
        self._checked = False

    def readable(self) -> bool:
        """Return True."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Read at most `size` bytes."""
        if size < 0:
            return self.readall()
        data = self._stream.read(size)
        self._take(data, ended=not data and size > 0)
        return data

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]  # typeshed's WriteableBuffer
        """Read into a buffer; return the number of bytes."""
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close the stream below too."""
        if not self.closed:
            self._stream.close()
        super().close()

    def _take(self, data: bytes, *, ended: bool) -> None:
        self._done += len(data)
        if self._digest:
            self._sha256.update(data)
        if 0 <= self._size < self._done or (ended and self._done < self._size):
            more = "at least " if self._done > self._size else ""
            raise self._wrong(f"has {more}{self._done} bytes, expected {self._size}")
        if (ended or self._done == self._size) and not self._checked:
            found = f"sha256:{self._sha256.hexdigest()}"
            if self._digest and found != self._digest:
                raise self._wrong(f"digest is {found}, expected {self._digest}")
            self._checked = True

    def _wrong(self, found: str) -> VerificationError:
        return VerificationError(f"{self._what}: {found}", "It is damaged or was changed: fetch the image again.")
