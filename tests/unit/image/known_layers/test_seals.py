"""A seal depends on every byte of its span and on the key, however the bytes arrive."""

from __future__ import annotations

import hashlib

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from hpcmod.image.known_layers.seals import SealedHash, Span, new_key

DATA = bytes(number * number % 251 for number in range(5000))
SPANS = [Span(100, 0, new_key()), Span(100, 400, new_key()), Span(500, 1, new_key()), Span(700, 4300, new_key())]


def sealed(data: bytes, block: int) -> SealedHash:
    hasher = SealedHash(SPANS)
    for at in range(0, len(data), block):
        hasher.update(memoryview(data)[at : at + block])
    return hasher


@pytest.mark.parametrize("block", [1, 7, 100, 401, 5000])
def test_seals_are_gmacs_of_the_spans_and_the_sha256_is_that_of_all(block: int) -> None:
    hasher = sealed(DATA, block)
    assert hasher.hexdigest() == hashlib.sha256(DATA).hexdigest()
    expected = [AESGCM(span.key).encrypt(bytes(12), b"", DATA[span.start : span.start + span.length]) for span in SPANS]
    assert hasher.seals() == expected


@pytest.mark.parametrize(("at", "changed"), [(0, []), (100, [1]), (499, [1]), (500, [2]), (699, []), (4999, [3])])
def test_a_changed_byte_changes_the_seal_of_its_span_only(at: int, changed: list[int]) -> None:
    other = DATA[:at] + bytes([DATA[at] ^ 1]) + DATA[at + 1 :]
    pairs = zip(sealed(DATA, 512).seals(), sealed(other, 512).seals())
    assert [number for number, (one, two) in enumerate(pairs) if one != two] == changed


def test_keys_are_never_the_same() -> None:
    assert len({new_key() for _ in range(100)}) == 100
