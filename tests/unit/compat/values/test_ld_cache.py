from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hpcmod.compat.values.ld_cache import parse_ld_cache
from hpcmod.core.errors import BadInputError
from tests.ld_cache import make_cache

CACHE = Path("/etc/ld.so.cache")


def test_the_cache_of_this_machine_is_read_as_ldconfig_does() -> None:
    said = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    lines = [line for line in said.splitlines() if "=>" in line and "hwcap" not in line]
    expected = [(line.split()[0], line.split(" => ")[1]) for line in lines]
    assert list(parse_ld_cache(CACHE.read_bytes())) == expected
    assert expected


@pytest.mark.parametrize("old", [0, 1, 2])
def test_entries_keep_their_order_even_after_the_older_form(old: int) -> None:
    data = make_cache([("libb.so.1", "/x/libb.so.1", 0), ("liba.so.1", "/y/liba.so.1", 0)], old=old)
    assert parse_ld_cache(data) == (("libb.so.1", "/x/libb.so.1"), ("liba.so.1", "/y/liba.so.1"))


def test_libraries_for_some_processors_are_left_out() -> None:
    assert parse_ld_cache(make_cache([("a", "/plain", 0), ("a", "/v3", 1)])) == (("a", "/plain"),)


@pytest.mark.parametrize(
    "data", [b"", b"ld.so-1.7.0", b"glibc-ld.so.cache1.1", b"text", make_cache([("a", "/a", 0)])[:60]]
)
def test_refuses_a_directory_that_is_not_a_cache(data: bytes) -> None:
    with pytest.raises(BadInputError):
        parse_ld_cache(data)
