from __future__ import annotations

import hashlib
import io
from typing import BinaryIO

import pytest

from hpcmod.core.errors import BadInputError, LackingError, VerificationError
from hpcmod.core.values.reference import ImageReference
from hpcmod.images.oci.image import make_image, verified
from hpcmod.images.values.oci import Manifest, OciDescriptor

DATA = b"0123456789" * 100
DIGEST = f"sha256:{hashlib.sha256(DATA).hexdigest()}"
CONFIG = OciDescriptor("application/vnd.oci.image.config.v1+json", DIGEST, 2)
LAYER = OciDescriptor("application/vnd.oci.image.layer.v1.tar", DIGEST, len(DATA))


def wrap(data: bytes = DATA, *, digest: str = DIGEST, size: int = len(DATA)) -> BinaryIO:
    return verified(io.BytesIO(data), digest=digest, size=size, what="layer 1")


def test_matching_content_is_accepted_in_one_or_many_pieces() -> None:
    assert wrap().read() == DATA
    stream = wrap()
    assert b"".join(iter(lambda: stream.read(7), b"")) == DATA
    buffer = bytearray(len(DATA))
    assert wrap().readinto(buffer) == len(DATA)  # type: ignore[attr-defined]  # BinaryIO does not name it
    assert buffer == DATA


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (DATA[:-1], "has 999 bytes, expected 1000"),
        (DATA + b"x", "has at least 1001 bytes"),
        (DATA[:-1] + b"x", "is sha256:"),
        (b"", "has 0 bytes"),
    ],
)
@pytest.mark.parametrize("piece", [1, 64, 5000])
def test_refuses_content_that_does_not_match_at_its_end(data: bytes, why: str, piece: int) -> None:
    stream = wrap(data)
    with pytest.raises(VerificationError, match=why):
        while stream.read(piece):
            pass


def test_the_last_byte_is_not_handed_out_before_the_sum_is_right() -> None:
    stream = wrap(DATA[:-1] + b"x")
    assert stream.read(999) == DATA[:-1]
    with pytest.raises(VerificationError):
        stream.read(1)


def test_a_stream_without_promises_passes_and_one_without_a_size_is_checked_at_its_end() -> None:
    assert wrap(b"abc", digest="", size=-1).read() == b"abc"
    with pytest.raises(VerificationError):
        wrap(b"abc", size=-1).read()


def make(manifest: Manifest, config: bytes = b'{"architecture": "amd64", "os": "linux", "rootfs": {}}') -> None:
    reference = ImageReference.parse("oci:x")
    image = make_image(
        *(reference, manifest, config), digest=DIGEST, architecture="amd64", open_blob=lambda _: io.BytesIO(DATA)
    )
    for _ in range(2):  # each call of open starts at the beginning of the layer
        assert [layer.open().read() for layer in image.layers] == [DATA] * len(manifest.layers)


def test_an_images_layers_can_be_opened_again_and_again() -> None:
    make(Manifest(CONFIG, (LAYER, LAYER)))


def test_an_image_of_which_manifest_and_configuration_disagree_is_refused() -> None:
    with pytest.raises(BadInputError, match="2 layers, its configuration lists 1"):
        make(Manifest(CONFIG, (LAYER, LAYER)), b'{"rootfs": {"diff_ids": ["%s"]}}' % DIGEST.encode())


def test_an_image_for_another_architecture_is_refused() -> None:
    with pytest.raises(LackingError, match="linux/arm64"):
        make(Manifest(CONFIG, ()), b'{"architecture": "arm64", "os": "linux"}')
