"""Readers: the parsers of external input, each with valid inputs and a way to mutate them."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.mutations import mutate

CHECKOUT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Reader:
    """A parser with its inputs."""

    read: Callable[[bytes], object]
    """Parses an input; may only raise HpcmodError."""
    make: Callable[[random.Random], bytes]
    """Makes an input."""


Prepare = Callable[[Path], Iterator[Reader]]
"""Prepares a reader in its own empty directory; the generator is used as a context manager."""

READERS: dict[str, Prepare] = {}
"""All readers by name."""


def reader(name: str) -> Callable[[Prepare], Prepare]:
    """Return a decorator that registers a reader."""

    def register(prepare: Prepare) -> Prepare:
        READERS[name] = prepare
        return prepare

    return register


@contextlib.contextmanager
def prepared(name: str, directory: Path) -> Iterator[Reader]:
    """Prepare a reader in an empty directory."""
    yield from READERS[name](directory)


def texts(name: str, read: Callable[[bytes], object], seeds: Sequence[bytes]) -> None:
    """Register a reader of text: valid inputs, mutated anywhere."""

    @reader(name)
    def prepare(_: Path) -> Iterator[Reader]:
        yield Reader(read, lambda dice: mutate(dice, dice.choice(seeds)))


def text_of(data: bytes) -> str:
    """Decode an input so that every byte is kept, as file readers do."""
    return data.decode(errors="surrogateescape")


def read_all(pattern: str) -> list[bytes]:
    """Return the content of the files of the checkout that match a pattern."""
    return [path.read_bytes() for path in sorted(CHECKOUT.glob(pattern))]
