"""Read ELF files: libraries and symbol versions that a program or library needs, and those it defines.

Only what the dynamic loader reads is read: program headers, the dynamic segment and the tables that it points to.
Section headers are ignored because a stripped file may have none. The format is that of the generic ABI (System V ABI,
chapters 4 and 5) with the version tables of the Linux Standard Base, Core, 10.7.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from hpcmod.core.errors import BadInputError

MAGIC = b"\x7fELF"

Read = Callable[[int, int], bytes]
"""Returns the requested number of bytes at an offset; fewer only at the end of the file."""

_PAGE = 4096
_LARGEST_HEADERS = 1 << 16  # as the kernel's own limit
_LARGEST_DYNAMIC = 1 << 20
_LONGEST_NAME = 1 << 16  # long enough for a search path; a damaged offset must not read a gigabyte
_MOST_VERSIONS = 1 << 14  # libstdc++ defines about 60

_MACHINES = {3: "386", 8: "mips", 20: "ppc", 22: "s390x", 40: "arm", 62: "amd64", 183: "arm64", 258: "loong64"}
_POWER, _RISCV = 21, 243

_LOAD, _DYNAMIC, _INTERPRETER = 1, 2, 3
_NULL, _NEEDED, _STRINGS, _STRINGS_SIZE, _SONAME, _RPATH, _RUNPATH = 0, 1, 5, 10, 14, 15, 29
_VERDEF, _VERDEF_COUNT, _VERNEED, _VERNEED_COUNT = 0x6FFFFFFC, 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF
_BASE, _WEAK = 1, 2  # flags of a version: the file itself; may be missing


@dataclass(frozen=True)
class ElfFile:
    """ELF data that the dynamic loader uses before it loads the file."""

    machine: str
    """GOARCH name: amd64, arm64, ...; empty for other machines."""
    bits: int
    """32 or 64."""
    soname: str = ""
    """DT_SONAME, the name under which others need it."""
    needed: tuple[str, ...] = ()
    """Names of the libraries it needs, in the order the loader looks for them."""
    rpath: tuple[str, ...] = ()
    """Directories of DT_RPATH as written, including `$ORIGIN`; the loader ignores them if there is a runpath."""
    runpath: tuple[str, ...] = ()
    interpreter: str = ""
    """Path of the dynamic loader that a program requests; most libraries have none."""
    versions_needed: tuple[tuple[str, str], ...] = ()
    """Library names and needed symbol versions; weak ones, which may be missing, are left out."""
    versions_defined: tuple[str, ...] = ()
    """Its symbol versions, without the one that names the file itself; empty: the loader accepts any version."""
    has_dynamic: bool = False
    """Whether the file is dynamically linked."""


def parse_elf(read: Read, size: int) -> ElfFile | None:
    """Parse a file of `size` bytes; None if it is not ELF.

    Raises BadInputError if it starts like an ELF file but is truncated, damaged or of an unknown class.
    """
    if size < len(MAGIC) or read(0, len(MAGIC)) != MAGIC:
        return None
    return _parse(_Bytes(read, size))


def _parse(data: _Bytes) -> ElfFile:
    _, bits_code, order_code = struct.unpack("4sBB", data.take(0, 6))
    if bits_code not in (1, 2) or order_code not in (1, 2):
        raise BadInputError(f"ELF file with unknown class {bits_code} or byte order {order_code}")
    form = _Form(64 if bits_code == 2 else 32, "<" if order_code == 1 else ">")
    machine, segments = _segments(data, form)
    dynamic = [segment for segment in segments if segment.kind == _DYNAMIC and segment.size]
    named = (segment for segment in segments if segment.kind == _INTERPRETER)
    interpreter = "".join(data.name(segment.offset, segment.offset + segment.size) for segment in named)
    if not dynamic:
        return ElfFile(_machine_name(machine, form), form.bits, interpreter=interpreter)
    tables = _Tables(data, form, [segment for segment in segments if segment.kind == _LOAD], dynamic[0])
    return ElfFile(
        _machine_name(machine, form),
        form.bits,
        soname="".join(tables.names(_SONAME)[-1:]),
        needed=tables.names(_NEEDED),
        rpath=_directories(tables.names(_RPATH)),
        runpath=_directories(tables.names(_RUNPATH)),
        interpreter=interpreter,
        versions_needed=tuple(dict.fromkeys(tables.versions_needed())),
        versions_defined=tuple(dict.fromkeys(tables.versions_defined())),
        has_dynamic=True,
    )


@dataclass(frozen=True)
class _Form:
    """Number format: byte order and word size."""

    bits: int
    order: str

    @property
    def word(self) -> str:
        return "Q" if self.bits == 64 else "I"


@dataclass(frozen=True)
class _Segment:
    kind: int
    offset: int
    address: int
    size: int
    """Size in the file, in bytes."""


@dataclass
class _Bytes:
    """A file's bytes, read page by page, each page once."""

    read: Read
    size: int
    pages: dict[int, bytes] = field(default_factory=dict)

    def take(self, offset: int, length: int) -> bytes:
        """Return exactly `length` bytes."""
        if offset < 0 or length < 0 or offset + length > self.size:
            raise BadInputError(f"the ELF file has {self.size} bytes and ends before byte {offset + length}")
        first, last = offset // _PAGE, (offset + max(length, 1) - 1) // _PAGE
        data = b"".join(self._page(number) for number in range(first, last + 1))
        return data[offset - first * _PAGE :][:length]

    def name(self, offset: int, end: int) -> str:
        """Return the string at `offset` that ends with a zero byte before `end`."""
        data = b""
        for at in range(offset, min(end, offset + _LONGEST_NAME, self.size), 256):
            data += self.take(at, min(256, end - at, self.size - at))
            if b"\0" in data:
                return data[: data.index(b"\0")].decode(errors="surrogateescape")
        raise BadInputError(f"the ELF file has no string at byte {offset}")

    def _page(self, number: int) -> bytes:
        if number not in self.pages:
            length = min(_PAGE, self.size - number * _PAGE)
            self.pages[number] = self.read(number * _PAGE, length)
            if len(self.pages[number]) != length:
                raise BadInputError(f"the ELF file has {self.size} bytes, but none could be read at {number * _PAGE}")
        return self.pages[number]


def _segments(data: _Bytes, form: _Form) -> tuple[int, list[_Segment]]:
    """Return the machine number and the program headers."""
    start, layout = 16, f"{form.order}HHI{form.word * 3}IHHH"
    _, machine, _, _, at, _, _, _, entry, count = struct.unpack(layout, data.take(start, struct.calcsize(layout)))
    shape = struct.Struct(form.order + ("IIQQQQQQ" if form.bits == 64 else "IIIIIIII"))
    if count and (entry < shape.size or entry * count > _LARGEST_HEADERS):
        raise BadInputError(f"invalid ELF file: {count} program headers of {entry} bytes")
    segments = []
    for number in range(count):
        fields = shape.unpack(data.take(at + number * entry, shape.size))
        kind, *rest = fields
        offset, address, size = (rest[1], rest[2], rest[4]) if form.bits == 64 else (rest[0], rest[1], rest[3])
        segments.append(_Segment(kind, offset, address, size))
    return machine, segments


def _machine_name(machine: int, form: _Form) -> str:
    if machine == _POWER:
        return "ppc64le" if form.order == "<" else "ppc64"
    if machine == _RISCV:
        return f"riscv{form.bits}" if form.bits == 64 else "riscv"
    return _MACHINES.get(machine, "")


def _directories(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(directory for text in texts for directory in text.split(":"))


class _Tables:
    """The dynamic segment and the tables it points to."""

    def __init__(self, data: _Bytes, form: _Form, loads: list[_Segment], dynamic: _Segment) -> None:
        self._data, self._form, self._loads = data, form, loads
        self._entries = list(self._dynamic(dynamic))
        self._left = _MOST_VERSIONS

    def values(self, tag: int) -> list[int]:
        return [value for name, value in self._entries if name == tag]

    def names(self, tag: int) -> tuple[str, ...]:
        """Return the strings of all entries with a tag."""
        return tuple(self._name(value) for value in self.values(tag))

    def versions_needed(self) -> Iterator[tuple[str, str]]:
        """Yield pairs of library and version, in file order."""
        for at, (_, count, name, first, _) in self._chain(_VERNEED, _VERNEED_COUNT, "HHIII"):
            library = self._name(name)
            for _, (_, flags, _, version, _) in self._links(at + first, count, "IHHII"):
                if not flags & _WEAK:
                    yield library, self._name(version)

    def versions_defined(self) -> Iterator[str]:
        """Yield the versions, in file order."""
        for at, (_, flags, _, count, _, first, _) in self._chain(_VERDEF, _VERDEF_COUNT, "HHHHIII"):
            if not flags & _BASE:
                yield from (self._name(name) for _, (name, _) in self._links(at + first, min(count, 1), "II"))

    def _dynamic(self, segment: _Segment) -> Iterator[tuple[int, int]]:
        entry = struct.Struct(self._form.order + self._form.word * 2)
        if segment.size > _LARGEST_DYNAMIC:
            raise BadInputError(f"invalid ELF file: dynamic segment of {segment.size} bytes")
        for at in range(segment.offset, segment.offset + segment.size - entry.size + 1, entry.size):
            tag, value = entry.unpack(self._data.take(at, entry.size))
            if tag == _NULL:
                return
            yield tag, value

    def _chain(self, start: int, count: int, layout: str) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yield the records of a version table whose address and length are in the dynamic segment."""
        for address in self.values(start)[:1]:
            yield from self._links(self._offset(address), sum(self.values(count)[:1]), layout)

    def _links(self, at: int, count: int, layout: str) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yield records that each end with the distance to the next (0 in the last)."""
        record = struct.Struct(self._form.order + layout)
        for _ in range(count):
            self._left -= 1  # over all tables: records may overlap, and each may point to thousands
            if self._left < 0:
                raise BadInputError(f"invalid ELF file: more than {_MOST_VERSIONS} symbol versions")
            fields = record.unpack(self._data.take(at, record.size))
            yield at, fields
            if not fields[-1]:
                return
            at += fields[-1]

    @cached_property
    def _strings(self) -> tuple[int, int]:
        """Return the offset and end of the string table."""
        tables = self.values(_STRINGS)
        if not tables:
            raise BadInputError("invalid ELF file: no string table")
        start = self._offset(tables[0])
        return start, start + (self.values(_STRINGS_SIZE) or [self._data.size])[0]

    def _name(self, offset: int) -> str:
        start, end = self._strings
        if offset >= end - start:
            raise BadInputError(f"invalid ELF file: string outside the string table, at {offset}")
        return self._data.name(start + offset, end)

    def _offset(self, address: int) -> int:
        """Return the file offset for a loaded address."""
        for segment in self._loads:
            if segment.address <= address < segment.address + segment.size:
                return segment.offset + address - segment.address
        raise BadInputError(f"invalid ELF file: address {address:#x} is not in a loaded segment")
