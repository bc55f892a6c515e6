"""Seals of sections: GMACs under secret keys, which show whether a copy still has the bytes that were indexed.

Compared with a second sha256 of all bytes, a GMAC (NIST SP 800-38D) takes a twentieth of the time. A key is for one
content only, so the nonce can be constant, and whoever has not read it cannot make other bytes with the same seal.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography.hazmat.primitives.ciphers import AEADEncryptionContext, Cipher, algorithms, modes

from hpcmod.image.known_layers.sections import KEY_SIZE

_NONCE = bytes(12)


@dataclass(frozen=True)
class Span:
    """Consecutive bytes of a file, to be sealed with a key."""

    start: int
    length: int
    key: bytes


def new_key() -> bytes:
    """Return a random key, for one section."""
    return os.urandom(KEY_SIZE)


class SealedHash:
    """The sha256 of a file, and the seals of some of its spans; `update` takes all bytes of the file in order.

    Parameters
    ----------
    spans
        In ascending order, without overlaps.
    """

    def __init__(self, spans: Sequence[Span]) -> None:
        self._sha256 = hashlib.sha256()
        self._spans = [(span, _start_seal(span.key)) for span in spans]
        self._at = self._first = 0

    def update(self, data: memoryview) -> None:
        """Take the next bytes."""
        self._sha256.update(data)
        end = self._at + len(data)
        for span, seal in self._spans[self._first :]:
            if span.start >= end:
                break
            seal.authenticate_additional_data(data[max(span.start - self._at, 0) : span.start + span.length - self._at])
            if span.start + span.length <= end:
                self._first += 1
        self._at = end

    def hexdigest(self) -> str:
        """Return the sha256 of all bytes so far."""
        return self._sha256.hexdigest()

    def seals(self) -> list[bytes]:
        """Return the seal of each span; only once, after the last byte."""
        return [_finish_seal(seal) for _, seal in self._spans]


def _start_seal(key: bytes) -> AEADEncryptionContext:
    return Cipher(algorithms.AES(key), modes.GCM(_NONCE)).encryptor()


def _finish_seal(seal: AEADEncryptionContext) -> bytes:
    seal.finalize()
    return seal.tag
