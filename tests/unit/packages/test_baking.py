"""New images without a container; tests/integration/test_bake_packages.py builds them with the real pip."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.core.errors import BadInputError, CheckFailedError, LackingError
from hpcmod.core.fs.checksums import file_sha256
from hpcmod.images import Sif
from hpcmod.packages import baking
from hpcmod.packages.bake.image import read_base
from hpcmod.packages.bake.writing import NewFile
from hpcmod.packages.baking import BakeRequest, bake_packages, make_target, plan_packages
from hpcmod.packages.builder import Builder
from hpcmod.packages.sets import PackageSet
from hpcmod.packages.values.plan import PackageChange, PipOptions, StatePlan
from hpcmod.packages.values.requirement import Requirements
from hpcmod.packages.values.state import State
from tests import corpus
from tests.package_states import EINOPS, make_state
from tests.programs import make_program

pytestmark = pytest.mark.skipif(not corpus.HAS_MKSQUASHFS, reason="mksquashfs is missing")


@pytest.fixture
def builder(builder: Builder, tmp_path: Path) -> Builder:
    """A fake runtime that fails as pip does if requirements conflict."""
    make_program(tmp_path / "runtime", "#!/bin/sh\nexit 7\n")
    return replace(builder, runtime=str(tmp_path / "runtime"))


@pytest.fixture
def request_(tmp_path: Path) -> BakeRequest:
    base = read_base(corpus.make_image(tmp_path / "image.sif"), "image.sif")
    change = PackageChange(added=Requirements(("einops",)))
    return BakeRequest(base, change, NewFile(tmp_path / "mine.sif"))


def test_the_base_is_read_with_its_python_packages_and_checksum(tmp_path: Path) -> None:
    sif = corpus.make_image(tmp_path / "image.sif")
    base = read_base(sif, "image.sif")
    assert (base.shown, base.sha256) == ("image.sif", file_sha256(sif))
    target = make_target(base)
    assert (target.module, target.packages) == (base.shown, Sif(sif).facts().packages)
    assert target.python.version == "3.12"
    assert read_base(sif, "x", sha256="5" * 64).sha256 == "5" * 64


def test_pip_refuses_a_base_without_python(tmp_path: Path) -> None:
    base = read_base(corpus.make_image(tmp_path / "image.sif", {"etc/motd": "hello"}), "image.sif")
    with pytest.raises(LackingError, match="has no Python"):
        make_target(base)


def test_an_existing_file_is_refused_before_pip_starts(request_: BakeRequest, builder: Builder) -> None:
    request_.new.out.touch()
    for build in (bake_packages, plan_packages):
        with pytest.raises(BadInputError, match="already exists"):
            build(request_, replace(builder, runtime="/nowhere"))


def test_nothing_is_left_where_pip_fails(request_: BakeRequest, builder: Builder) -> None:
    for build in (bake_packages, plan_packages):
        with pytest.raises(CheckFailedError, match=r"pip failed in image\.sif"):
            build(request_, builder)
    assert not request_.new.out.exists() and not request_.lock.exists()
    assert list(builder.temporary.iterdir()) == []


def test_packages_that_the_base_has_make_no_image(
    request_: BakeRequest, builder: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = replace(make_state(1), from_image=("einops==0.8.1",))
    monkeypatch.setattr(baking, "build_state", lambda *_: state)
    with pytest.raises(BadInputError, match=r"image\.sif has all of these packages: einops==0\.8\.1"):
        bake_packages(request_, builder)
    assert not request_.lock.exists()


def test_a_lock_and_its_options_are_what_pip_gets(
    request_: BakeRequest, builder: Builder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plans = []

    def build_state(plan: StatePlan, found: PackageSet, builder: Builder) -> State:
        plans.append(plan)
        return make_state(1)

    monkeypatch.setattr(baking, "build_state", build_state)
    line = f"{EINOPS.pin} --hash=sha256:{EINOPS.sha256}"
    pip = PipOptions(("--pre", "--find-links=/wheels"))
    change = PackageChange(Requirements(("einops",)), locked=(line,), pip=pip)
    request = replace(request_, change=change, given_lock=tmp_path / "pylock.toml")
    assert (request.needs_pip, request.lock) == (True, tmp_path / "pylock.toml")
    with pytest.raises(BadInputError):
        bake_packages(request, builder)
    assert (plans[0].lines, plans[0].requirements) == ((line,), ("einops",))
    assert plans[0].places == ("/wheels",)
