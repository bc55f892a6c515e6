from __future__ import annotations

import errno
import grp
import os
import stat
from functools import partial
from pathlib import Path

import pytest

from hpcmod.core.errors import HpcmodError, LackingError
from hpcmod.core.values.trust import TrustPolicy
from hpcmod.images.convert import ConvertOptions
from hpcmod.images.settings import make_options, open_cache
from hpcmod.machine.values.site import Site
from hpcmod.machine.values.tables import Images
from tests.programs import make_program

SITE = Site("x")


@pytest.mark.parametrize(
    ("site", "environ", "place"),
    [
        (Site("x", images=Images(cache="/site")), {"HPCMOD_CACHE": "/mine", "HOME": "/h"}, "/mine"),
        (
            Site("x", images=Images(cache="/scratch/$USER/${A}")),
            {"USER": "me", "A": "b", "HOME": "/h"},
            "/scratch/me/b",
        ),
        (SITE, {"APPTAINER_CACHEDIR": "/a", "SINGULARITY_CACHEDIR": "/s", "HOME": "/h"}, "/a/hpcmod"),
        (SITE, {"SINGULARITY_CACHEDIR": "/s", "XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/s/hpcmod"),
        (SITE, {"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/hpcmod"),
        (SITE, {"HOME": "/h"}, "/h/.cache/hpcmod"),
    ],
)
def test_the_cache_is_in_the_first_given_place(site: Site, environ: dict[str, str], place: str) -> None:
    assert str(open_cache(site, environ).directory) == place


def test_without_any_place_the_error_names_the_variable() -> None:
    with pytest.raises(LackingError, match="HPCMOD_CACHE"):
        open_cache(SITE, {})


def test_a_cache_for_a_group_is_created_and_recognized_as_shared(tmp_path: Path) -> None:
    group = grp.getgrgid(os.getgid()).gr_name
    cache = open_cache(
        Site(
            "x",
            images=Images(cache=f"{tmp_path}/c", cache_group=group),
        ),
        {},
    )
    assert stat.S_IMODE(cache.directory.stat().st_mode) == 0o2770
    assert cache.shared
    assert open_cache(
        Site(
            "x",
            images=Images(cache=f"{tmp_path}/c", cache_group=group),
        ),
        {},
    ).shared


def test_an_unknown_group_is_an_error_in_the_profile(tmp_path: Path) -> None:
    with pytest.raises(LackingError, match="unknown group 'no such group'"):
        open_cache(
            Site(
                "x",
                images=Images(cache=f"{tmp_path}/c", cache_group="no such group"),
            ),
            {},
        )
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize(
    ("text", "name", "level"), [("gzip:9", "gzip", 9), ("none", "none", None), ("zstd:19", "zstd", 19)]
)
def test_a_compressor_may_have_a_level(text: str, name: str, level: int | None) -> None:
    found = ConvertOptions.parse(text)
    assert found.compression == name
    assert level is None or found.level == level


@pytest.mark.parametrize("text", ["zip", "gzip:", "gzip:-1", "gzip:999", "zstd:x", ":3"])
def test_an_unknown_compressor_is_refused(text: str) -> None:
    with pytest.raises(HpcmodError):
        ConvertOptions.parse(text)


def test_the_users_options_override_the_profile(tmp_path: Path) -> None:
    policy = TrustPolicy(("digest",))
    site = Site("x", images=Images(compression="gzip:1", trust=policy))
    plain = make_options(site, {"HOME": str(tmp_path)})
    asked = make_options(site, {}, use_cache=False, allow_http=True)
    assert (plain.conversion.level, plain.policy, plain.access.allow_http) == (1, policy, False)
    assert (asked.cache, asked.access.allow_http) == (None, True)
    assert make_options(site, {}, use_cache=False, compression="zstd:2").conversion.compression == "zstd"


@pytest.mark.parametrize(
    ("said", "name"), [("apptainer version 1.4.5", "zstd"), ("singularity-ce version 4.3.2", "gzip"), ("", "gzip")]
)
def test_zstd_is_for_a_runtime_that_reads_it(said: str, name: str, tmp_path: Path) -> None:
    make_program(tmp_path / "singularity", f"#!/bin/sh\necho '{said}'\n")
    here = partial(make_options, SITE, {"PATH": str(tmp_path)}, use_cache=False)
    assert here().conversion.compression == name
    assert here(compression="zstd").conversion.compression == "zstd"
    assert make_options(SITE, {"PATH": "/nowhere"}, use_cache=False).conversion.compression == "gzip"


def test_a_cache_that_cannot_get_its_group_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "chown", refuse)
    group = grp.getgrgid(os.getgid()).gr_name
    with pytest.raises(LackingError, match="cannot be created for the group") as caught:
        open_cache(
            Site(
                "x",
                images=Images(cache=f"{tmp_path}/c", cache_group=group),
            ),
            {},
        )
    assert "HPCMOD_CACHE" in caught.value.cure
    assert list(tmp_path.iterdir()) == []
