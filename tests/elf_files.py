"""Stub ELF files: libraries that the dynamic loader really loads, but that have no code to call.

`elf(...)` returns the bytes of a library with chosen names, dependencies and versions. The real loader loads 64-bit
little-endian ones; the other forms only test readers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

MACHINES = {"amd64": 62, "arm64": 183, "ppc64le": 21, "riscv64": 243, "386": 3, "s390x": 22}
SHARED, PROGRAM = 3, 2

_LOAD, _DYNAMIC, _INTERPRETER, _STACK = 1, 2, 3, 0x6474E551
_HASH, _STRTAB, _SYMTAB, _STRSZ, _SYMENT = 4, 5, 6, 10, 11
_NEEDED, _SONAME, _RPATH, _RUNPATH = 1, 14, 15, 29
_VERSYM, _VERDEF, _VERDEF_COUNT, _VERNEED, _VERNEED_COUNT = 0x6FFFFFF0, 0x6FFFFFFC, 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF


@dataclass
class _Strings:
    """A string table."""

    data: bytearray = field(default_factory=lambda: bytearray(b"\0"))

    def add(self, text: str) -> int:
        at = len(self.data)
        self.data += text.encode(errors="surrogateescape") + b"\0"
        return at


def version_hash(name: str) -> int:
    """Return the System V ABI hash of a name."""
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        value ^= (value & 0xF0000000) >> 24
        value &= 0x0FFFFFFF
    return value


def elf(
    soname: str = "",
    *,
    needed: Sequence[str] = (),
    needs: Iterable[tuple[str, str]] = (),
    weak: Iterable[tuple[str, str]] = (),
    defines: Sequence[str] = (),
    rpath: str = "",
    runpath: str = "",
    interpreter: str = "",
    machine: str = "amd64",
    bits: int = 64,
    order: str = "<",
    dynamic: bool = True,
    padding: int = 0,
    filler: bytes = b"",
) -> bytes:
    """Return the bytes of an ELF file.

    `needs`, `weak`: Library and version; each library is also added to the needed ones.
    `defines`: Versions of its symbols; each gets a symbol `at_VERSION`.
    `padding`: Number of zero bytes between the header and the rest, for a file that spans many blocks of a squashfs.
    `filler`: Bytes to write there instead of zeros.
    """
    wanted = [*needs]
    lax = [*weak]
    libraries = list(dict.fromkeys([*needed, *(name for name, _ in (*wanted, *lax))]))
    word, strings = ("Q" if bits == 64 else "I"), _Strings()
    header, entry = struct.calcsize(f"<16sHHI{word * 3}IHHHHHH"), struct.calcsize("<IIQQQQQQ" if bits == 64 else "<8I")
    at = header + 4 * entry + (len(filler) or padding)
    tags: list[tuple[int, int]] = [(_NEEDED, strings.add(name)) for name in libraries]
    tags += [
        (tag, strings.add(text)) for tag, text in ((_SONAME, soname), (_RPATH, rpath), (_RUNPATH, runpath)) if text
    ]
    body = bytearray()

    def put(data: bytes) -> int:
        nonlocal body
        body += bytes(-len(body) % 8)
        place = at + len(body)
        body += data
        return place

    symbols = [(strings.add(f"at_{name}"), number) for number, name in enumerate(defines, 2)]
    tags.append((_HASH, put(struct.pack(f"{order}{4 + len(symbols)}I", *_hash_table(len(symbols))))))
    tags.append((_SYMTAB, put(b"".join(_symbols(symbols, bits, order)))))
    versions = [0, *(number for _, number in symbols)]
    if defines or wanted or lax:
        tags.append((_VERSYM, put(struct.pack(f"{order}{len(versions)}H", *versions))))
    if defines:
        tags.append((_VERDEF, put(_definitions(soname, defines, strings, order))))
        tags.append((_VERDEF_COUNT, len(defines) + 1))
    if wanted or lax:
        by_library: dict[str, list[tuple[str, int]]] = {}
        for flags, pairs in ((0, wanted), (2, lax)):
            for name, version in pairs:
                by_library.setdefault(name, []).append((version, flags))
        tags.append((_VERNEED, put(_needs(by_library, strings, order, len(defines) + 2))))
        tags.append((_VERNEED_COUNT, len(by_library)))
    path_at = put(interpreter.encode() + b"\0")
    tags.append((_STRTAB, put(bytes(strings.data))))
    tags += [(_STRSZ, len(strings.data)), (_SYMENT, 24 if bits == 64 else 16), (0, 0)]
    table = b"".join(struct.pack(order + word * 2, *tag) for tag in tags)
    dynamic_at = put(table)
    size = at + len(body)
    kinds = [(_LOAD, 6, 0, size, 0x1000), (_STACK, 6, 0, 0, 16)]
    if dynamic:
        kinds.append((_DYNAMIC, 6, dynamic_at, len(table), 8))
    if interpreter:
        kinds.insert(0, (_INTERPRETER, 4, path_at, len(interpreter) + 1, 1))
    ident = b"\x7fELF" + bytes([2 if bits == 64 else 1, 1 if order == "<" else 2, 1]) + bytes(9)
    head = struct.pack(
        f"{order}16sHHI{word * 3}IHHHHHH",
        *(ident, PROGRAM if interpreter else SHARED, MACHINES[machine], 1, 0, header, 0, 0, header, entry, len(kinds)),
        *(0, 0, 0),
    )
    segments = b"".join(_segment(kind, bits, order) for kind in kinds)
    start = (head + segments).ljust(at - len(filler), b"\0") + filler
    return start + bytes(body)


def _hash_table(symbols: int) -> list[int]:
    """Return a table with one bucket that links all symbols."""
    chain = [0, *(number + 1 if number < symbols else 0 for number in range(1, symbols + 1))]
    return [1, symbols + 1, 1 if symbols else 0, *chain]


def _symbols(symbols: Sequence[tuple[int, int]], bits: int, order: str) -> Iterable[bytes]:
    yield bytes(24 if bits == 64 else 16)
    for name, _ in symbols:
        if bits == 64:
            yield struct.pack(order + "IBBHQQ", name, 0x11, 0, 0xFFF1, 0, 0)
        else:
            yield struct.pack(order + "IIIBBH", name, 0, 0, 0x11, 0, 0xFFF1)


def _segment(kind: tuple[int, int, int, int, int], bits: int, order: str) -> bytes:
    number, flags, offset, size, align = kind
    if bits == 64:
        return struct.pack(order + "IIQQQQQQ", number, flags, offset, offset, offset, size, size, align)
    return struct.pack(order + "8I", number, offset, offset, offset, size, size, flags, align)


def _definitions(soname: str, defines: Sequence[str], strings: _Strings, order: str) -> bytes:
    found = b""
    names = [soname or "stub", *defines]
    for number, name in enumerate(names, 1):
        following = 0 if number == len(names) else 28
        flags = 1 if number == 1 else 0
        found += struct.pack(order + "HHHHIII", 1, flags, number, 1, version_hash(name), 20, following)
        found += struct.pack(order + "II", strings.add(name), 0)
    return found


def _needs(by_library: dict[str, list[tuple[str, int]]], strings: _Strings, order: str, first: int) -> bytes:
    found, number = b"", first
    for place, (library, versions) in enumerate(by_library.items(), 1):
        following = 0 if place == len(by_library) else 16 + 16 * len(versions)
        found += struct.pack(order + "HHIII", 1, len(versions), strings.add(library), 16, following)
        for index, (version, flags) in enumerate(versions, 1):
            last = index == len(versions)
            found += struct.pack(
                order + "IHHII", version_hash(version), flags, number, strings.add(version), 0 if last else 16
            )
            number += 1
    return found
