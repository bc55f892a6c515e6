from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcmod.compat.values.elf import ElfFile, parse_elf
from hpcmod.core.errors import BadInputError
from tests.elf_files import elf

NAME = st.text("abcdefghij_.+-0123456789", min_size=1, max_size=30)
FORMS = [(64, "<"), (64, ">"), (32, "<"), (32, ">")]


def parse(data: bytes) -> ElfFile | None:
    return parse_elf(lambda offset, length: data[offset : offset + length], len(data))


def parsed(data: bytes) -> ElfFile:
    found = parse(data)
    assert found is not None
    return found


@given(
    form=st.sampled_from(FORMS),
    soname=NAME,
    needed=st.lists(NAME, max_size=5, unique=True),
    needs=st.lists(st.tuples(NAME, NAME), max_size=6, unique=True),
    weak=st.lists(st.tuples(NAME, NAME), max_size=3, unique=True),
    defines=st.lists(NAME, max_size=6, unique=True),
    paths=st.lists(NAME.map("/{}".format), max_size=3),
    padding=st.integers(0, 20_000),
)
def test_reads_back_all_written_forms(
    form: tuple[int, str],
    soname: str,
    needed: list[str],
    needs: list[tuple[str, str]],
    weak: list[tuple[str, str]],
    defines: list[str],
    paths: list[str],
    padding: int,
) -> None:
    written = elf(
        soname,
        needed=needed,
        needs=needs,
        weak=weak,
        defines=defines,
        rpath=":".join(paths),
        runpath=":".join([*paths, "$ORIGIN/../lib"]),
        bits=form[0],
        order=form[1],
        padding=padding,
    )
    found = parsed(written)
    libraries = dict.fromkeys([*needed, *(library for library, _ in (*needs, *weak))])
    assert (found.soname, found.needed, found.bits) == (soname, tuple(libraries), form[0])
    assert (found.rpath, found.runpath) == (tuple(paths), (*paths, "$ORIGIN/../lib"))
    assert set(found.versions_needed) == set(needs)
    assert found.versions_defined == tuple(defines)
    assert found.has_dynamic


@pytest.mark.parametrize(
    ("machine", "bits", "order", "expected"),
    [
        *((name, 64, "<", name) for name in ("amd64", "arm64", "ppc64le", "riscv64")),
        ("ppc64le", 64, ">", "ppc64"),
        ("386", 32, "<", "386"),
        ("s390x", 64, ">", "s390x"),
    ],
)
def test_names_the_processor_as_images_do(machine: str, bits: int, order: str, expected: str) -> None:
    assert parsed(elf(machine=machine, bits=bits, order=order)).machine == expected


def test_a_processor_that_it_does_not_know_has_no_name() -> None:
    data = bytearray(elf())
    data[18:20] = struct.pack("<H", 0xABCD)
    assert parsed(bytes(data)).machine == ""


def test_a_program_names_its_loader_and_one_linked_statically_has_nothing_to_load() -> None:
    program = parsed(elf(needed=["libc.so.6"], interpreter="/lib64/ld-linux-x86-64.so.2"))
    assert (program.interpreter, program.soname, program.has_dynamic) == ("/lib64/ld-linux-x86-64.so.2", "", True)
    assert parsed(elf(dynamic=False)) == ElfFile("amd64", 64)


@pytest.mark.parametrize("data", [b"", b"\x7f", b"\x7fEL", b"#!/bin/sh\n", b"/* GNU ld script */", bytes(100)])
def test_a_file_that_is_not_elf_gives_none(data: bytes) -> None:
    assert parse(data) is None


def test_it_reads_a_few_pages_of_a_large_file_and_no_page_twice() -> None:
    data = elf("libbig.so", needs=[("libc.so.6", "GLIBC_2.34")], padding=50_000_000)
    asked: list[tuple[int, int]] = []

    def read(offset: int, length: int) -> bytes:
        asked.append((offset, length))
        return data[offset : offset + length]

    assert parse_elf(read, len(data)) is not None
    assert sum(length for _, length in asked) < 20_000
    assert len(set(asked)) == len(asked)


WHOLE = elf("libx.so.1", needs=[("a", "A_1"), ("a", "A_2"), ("b", "B_1")], defines=["X_1", "X_2"], rpath="/x", bits=64)


@pytest.mark.parametrize(
    ("at", "value", "said"),
    [
        pytest.param(4, b"\3", "class 3", id="class"),
        pytest.param(5, b"\0", "byte order 0", id="byte order"),
        pytest.param(54, b"\1\0", "program headers of 1 bytes", id="headers too short"),
        pytest.param(56, b"\xff\xff", "65535 program headers", id="too many headers"),
        pytest.param(32, b"\xff" * 8, "ends before", id="headers beyond the end"),
    ],
)
def test_an_impossible_header_is_refused(at: int, value: bytes, said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        parse(WHOLE[:at] + value + WHOLE[at + len(value) :])


@pytest.mark.parametrize("tag", [5, 0x6FFFFFFC, 0x6FFFFFFE])
def test_a_pointer_to_nowhere_is_refused(tag: int) -> None:
    (dynamic,) = struct.unpack_from("<Q", WHOLE, 64 + 2 * 56 + 8)  # the offset in the third header
    at = next(at for at in range(dynamic, len(WHOLE), 16) if WHOLE[at : at + 8] == struct.pack("<Q", tag))
    with pytest.raises(BadInputError, match="not in a loaded segment"):
        parse(WHOLE[: at + 8] + struct.pack("<Q", 1 << 40) + WHOLE[at + 16 :])


def test_versions_that_lie_over_each_other_end_before_they_take_long() -> None:
    """Each record of a table points to the same 60,000 others: reading them one by one would mean a billion records."""
    count = 60_000
    data = bytearray(elf("evil.so", needs=[("a", "A_1")], padding=17 * count))
    start = struct.calcsize("<16sHHIQQQIHHHHHH") + 4 * 56
    for number in range(count):
        struct.pack_into("<HHIII", data, start + number * 16, 1, 0xFFFF, 1, 16, 16)
    at = data.index(struct.pack("<Q", 0x6FFFFFFE), start + 17 * count)
    data[at + 8 : at + 16] = struct.pack("<Q", start)
    data[at + 24 : at + 32] = struct.pack("<Q", count)
    with pytest.raises(BadInputError, match="symbol versions"):
        parse(bytes(data))
