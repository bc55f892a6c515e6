from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.building.base_image import verify_bases
from hpcmod.building.values.building import make_own_plan
from hpcmod.core.errors import UntrustedError
from hpcmod.core.values.trust import ANYTHING, TrustPolicy, TrustRule
from hpcmod.images.web.credentials import Access
from tests.corpus import make_sif

PINNED = "@sha256:" + "a" * 64
STRICT = TrustPolicy(rules=(TrustRule("docker://h.io/*", ("digest",)),))


def verify(policy: TrustPolicy, base: str = "", text: str = "", form: str = "Dockerfile") -> None:
    plan = make_own_plan("mine", form, text, context="/context", architecture="amd64", contents="")
    plan = replace(plan, base=base)
    verify_bases(plan, policy, access=Access(), environ=os.environ)


@pytest.mark.parametrize("policy", [STRICT, TrustPolicy(also=STRICT), TrustPolicy(needs=("digest",))])
def test_a_base_image_is_checked_against_the_policy(policy: TrustPolicy) -> None:
    verify(policy, f"docker://h.io/x{PINNED}")
    verify(ANYTHING, "docker://h.io/x:1")
    with pytest.raises(UntrustedError, match=r"the base image docker://h.io/x:1: the site has a rule"):
        verify(policy, "docker://h.io/x:1")
    with pytest.raises(UntrustedError, match="has a rule"):
        verify(policy, text=f"FROM h.io/x{PINNED}\nCOPY --from=h.io/y /a /a\n")


def test_an_image_that_a_variable_names_is_refused() -> None:
    with pytest.raises(UntrustedError, match="can be any image"):
        verify(STRICT, text="ARG X\nFROM $X\n")
    verify(ANYTHING, text="ARG X\nFROM $X\n")


@pytest.mark.parametrize(
    ("header", "refused"),
    [
        (f"Bootstrap: docker\nFrom: h.io/x{PINNED}", ""),
        ("Bootstrap: scratch", ""),
        ("Bootstrap: docker\nFrom: h.io/x:1", "has a rule"),
        (f"Bootstrap: docker\nFrom: h.io/x{PINNED}\n%help\nBootstrap: docker\nFrom: h.io/y", "has a rule"),
        ("Bootstrap: docker\nFrom: h.io/{{ name }}", "can be any image"),
        ("Bootstrap: library\nFrom: lab/col/x", "Bootstrap: library"),
        ("From: x", "Bootstrap: "),
    ],
)
def test_the_bases_of_a_definition_file_are_checked(header: str, refused: str) -> None:
    text = f"{header}\n%post\n    true\n"
    verify(ANYTHING, text=text, form="definition")
    if not refused:
        verify(STRICT, text=text, form="definition")
        return
    with pytest.raises(UntrustedError, match=refused):
        verify(STRICT, text=text, form="definition")


def test_a_base_on_disk_is_checked_against_the_rule_for_its_place(tmp_path: Path) -> None:
    sif = make_sif(tmp_path / "x.sif")
    policy = TrustPolicy(rules=(TrustRule(f"{tmp_path}/*", ("digest",)),))
    with pytest.raises(UntrustedError):
        verify(policy, str(sif))
    verify(TrustPolicy(needs=("digest",), rules=(TrustRule(f"{tmp_path}/*"),)), str(sif))
