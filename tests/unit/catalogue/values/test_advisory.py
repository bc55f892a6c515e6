from __future__ import annotations

from dataclasses import replace

import pytest

from hpcmod.catalogue.values.advisory import Advisory, HostFact, fits, seconds_of
from hpcmod.machine.values.condition import Bound

DIGEST = "ab" * 32
ADVISORY = Advisory("gdr", "RCCL hangs", "x", "https://example.org/28", issued="2026-09-01", expires="2027-02-28")
ABOUT = replace(
    ADVISORY,
    digests=(DIGEST,),
    modules=("PyTorch/2.7*",),
    host=(
        HostFact(
            "/opt/cray/libfabric/{version}/lib64", (Bound("libfabric", ">=", "1.22"), Bound("libfabric", "<", "2"))
        ),
        HostFact("/opt/plugin"),
    ),
    environment=(("NCCL_NET_GDR_LEVEL", "*"), ("NCCL_NET", None)),
)


@pytest.mark.parametrize(
    ("module", "sha256", "yes"),
    [
        ("Other/1", DIGEST, True),
        ("PyTorch/2.7.1-rocm", "", True),
        ("PyTorch/2.6", "", False),
        ("xPyTorch/2.7", "cd" * 32, False),
    ],
)
def test_is_about_the_images_it_names(module: str, sha256: str, yes: bool) -> None:
    assert ABOUT.concerns(module, sha256) is yes


def test_one_that_names_no_image_is_about_all() -> None:
    assert ADVISORY.concerns("any/1", "")


ENVIRON = {"NCCL_NET_GDR_LEVEL": "3"}
HOST = {"/opt/cray/libfabric/*/lib64": "/opt/cray/libfabric/1.22.0/lib64", "/opt/plugin": "/opt/plugin"}


def holds(advisory: Advisory, environ: dict[str, str], host: dict[str, str], *, day: str = "2026-10-01") -> bool:
    return advisory.holds_in(environ, lambda pattern: host.get(pattern, ""), now=seconds_of(day))


def test_holds_where_everything_is_as_it_says() -> None:
    assert holds(ABOUT, ENVIRON, HOST)


@pytest.mark.parametrize(
    ("environ", "host"),
    [
        pytest.param({}, HOST, id="the variable is not set"),
        pytest.param({**ENVIRON, "NCCL_NET": ""}, HOST, id="one is set that must not be"),
        pytest.param(ENVIRON, {**HOST, "/opt/plugin": ""}, id="something is not there"),
        *(
            pytest.param(ENVIRON, {**HOST, "/opt/cray/libfabric/*/lib64": f"/opt/cray/libfabric/{one}/lib64"}, id=one)
            for one in ("1.21.9", "1.9", "2", "2.0", "words", "")
        ),
    ],
)
def test_does_not_apply_where_a_condition_differs(environ: dict[str, str], host: dict[str, str]) -> None:
    assert not holds(ABOUT, environ, host)


@pytest.mark.parametrize(("day", "yes"), [("2027-02-28", True), ("2027-03-01", False)])
def test_is_silent_after_the_day_it_expires(day: str, yes: bool) -> None:
    assert holds(ABOUT, ENVIRON, HOST, day=day) is yes


def test_a_release_with_a_prefix_has_a_version() -> None:
    advisory = replace(ADVISORY, host=(HostFact("/opt/rocm-{version}", (Bound("rocm", ">=", "6.2"),)),))
    assert holds(advisory, {}, {"/opt/rocm-*": "/opt/rocm-6.2.4"})
    assert not holds(advisory, {}, {"/opt/rocm-*": "/opt/rocm-6.1"})


@pytest.mark.parametrize(
    ("text", "pattern", "yes"),
    [
        ("abc", "abc", True),
        ("abc", "a*", True),
        ("abc", "a?c", True),
        ("abc", "a.c", False),
        ("a[b", "a[b", True),
        ("abcd", "abc", False),
        ("a\nb", "a*b", True),
    ],
)
def test_in_a_pattern_only_the_star_and_the_question_mark_are_special(text: str, pattern: str, yes: bool) -> None:
    assert fits(text, pattern) is yes
