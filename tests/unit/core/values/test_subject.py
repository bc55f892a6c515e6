from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcmod.core.errors import BadInputError, UntrustedError
from hpcmod.core.values.reference import ImageReference
from hpcmod.core.values.subject import normalize

SAME = [
    ("https://host.org/a/b.sif", "https://host.org/a/b.sif"),
    ("HTTPS://user:secret@Host.ORG.:443//a/./c/../%62.sif?key=1#x", "https://host.org/a/b.sif"),
    ("http://h:080/x.sif", "http://h/x.sif"),
    ("http://h:/x.sif", "http://h/x.sif"),
    ("http://h/a%20b/%E2%82%AC.sif", "http://h/a b/€.sif"),
    ("http://h/../../x.sif", "http://h/x.sif"),
    ("http://[0:0::1]:5601/x", "http://[::1]:5601/x"),
    ("http://[::ffff:127.0.0.1]/x", "http://127.0.0.1/x"),
    ("https://bücher.example/x", "https://xn--bcher-kva.example/x"),
    ("https://host.org", "https://host.org"),
    ("docker://GHCR.io:443/org/x:1", "docker://ghcr.io/org/x:1"),
    ("oras://h.io:05000/x:1", "oras://h.io:5000/x:1"),
    ("docker://registry-1.docker.io/ubuntu:1", "docker://docker.io/library/ubuntu:1"),
    ("docker://docker.io/*", "docker://docker.io/*"),
    ("oci:///srv/../x:1", "oci:/x:1"),
    ("/a/../b//c.sif", "/b/c.sif"),
    ("//a/b", "/a/b"),
    ("/a/b/", "/a/b/"),
    ("*", "*"),
]
"""Pairs of equivalent texts; the second is normalized."""


@pytest.mark.parametrize(("text", "expected"), SAME)
def test_texts_of_one_meaning_get_one_spelling(text: str, expected: str) -> None:
    assert normalize(text) == expected
    assert normalize(expected) == expected


@pytest.mark.parametrize(
    "address",
    [
        "http://h/a%2Fb",
        "http://h/a%5cb",
        "http://h/a\\b",
        "http://h/a;b/c",
        "http://h/%00",
        "http://h/public/%252e%252e/private/i.sif",
        "http://h/%2573ecure/i.sif",
    ],
)
def test_refuses_addresses_that_servers_read_differently(address: str) -> None:
    with pytest.raises(UntrustedError):
        normalize(address)


@pytest.mark.parametrize("host", ["127.1", "0x7f.0.0.1", "2130706433", "127.0.0.01", "0177.0.0.1"])
@pytest.mark.parametrize("form", ["http://{}/x.sif", "docker://{}:5000/x:1"])
def test_other_spellings_of_an_ipv4_address_are_refused(host: str, form: str) -> None:
    with pytest.raises(BadInputError, match="not a plain IPv4 address"):
        ImageReference.parse(form.format(host))


NAMES = st.text(alphabet="abcXYZ019._-~ €", min_size=1, max_size=6).filter(lambda name: name not in (".", ".."))


@st.composite
def respelled(draw: st.DrawFn) -> tuple[str, str]:
    """Draw an address, and another spelling of it."""
    scheme, port = draw(st.sampled_from([("http", 80), ("https", 443), ("http", 5603), ("https", 8443)]))
    host, names = draw(st.sampled_from(["h.io", "127.0.0.1", "[::1]"])), draw(st.lists(NAMES, min_size=1, max_size=4))
    other = "".join(draw(_detour()) + "/" + draw(_escaped(name)) for name in names)
    zeros = "0" * draw(st.integers(0, 4))
    shown = draw(st.sampled_from([host, host.upper()]))
    user = draw(st.sampled_from(["", "u:p@"]))
    query = draw(st.sampled_from(["", "?a=1", "?..."]))
    plain = f"{scheme}://{host}:{port}/" + "/".join(map(_plain, names))
    return plain, f"{draw(st.sampled_from([scheme, scheme.upper()]))}://{user}{shown}:{zeros}{port}{other}{query}"


def _plain(name: str) -> str:
    return name.replace("%", "%25")


def _detour() -> st.SearchStrategy[str]:
    return st.sampled_from(["", "/", "/.", "/x/..", "/%2e", "/y/%2E.", "//"])


def _escaped(name: str) -> st.SearchStrategy[str]:
    forms = [(char, "".join(f"%{byte:02x}" for byte in char.encode())) for char in name]
    return st.tuples(*(st.sampled_from(form) for form in forms)).map("".join)


@given(respelled())
def test_an_address_of_the_same_meaning_is_the_same_subject(pair: tuple[str, str]) -> None:
    assert normalize(pair[0]) == normalize(pair[1])


@given(
    st.text("ab/.%25eE~:@?#", max_size=20).filter(lambda path: "%25" not in path).map(lambda path: f"http://h/{path}")
)
def test_a_normalized_address_has_no_dots_left(address: str) -> None:
    segments = normalize(address).removeprefix("http://h").split("/")
    assert not {".", ".."} & set(segments)
    assert "" not in segments[1:-1]


@pytest.mark.parametrize(
    "address", ["https://evil.org\\@good.org/pub/x", "https://%67ood.org/pub/x", "https://[fe80::1%25eth0]/pub/x"]
)
def test_a_host_that_programs_read_differently_is_refused(address: str) -> None:
    with pytest.raises(UntrustedError, match="cannot be checked against"):
        normalize(address)
