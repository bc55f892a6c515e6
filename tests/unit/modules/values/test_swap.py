from __future__ import annotations

from dataclasses import replace

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.machine.values.bind import Bind
from hpcmod.machine.values.site import NETSTACK_MODES, Site
from hpcmod.machine.values.tables import Netstack, Network, SiteBinds
from hpcmod.modules.values.plan import make_plan
from hpcmod.modules.values.swap import OFI_LABEL, swaps_libraries, with_mode
from tests.plans import FACTS, SPEC

HOST = Bind("/appl/netstack/*", "/host/lib", pattern=True)
NAMES = ("SINGULARITYENV_LD_LIBRARY_PATH", "APPTAINERENV_LD_LIBRARY_PATH")


def site_with(**values: object) -> Site:
    binds = SiteBinds(optional=((Bind("/opt/fabric/lib", "/host/lib"),),))
    return Site("x", binds=binds, network=Network(netstack=Netstack((HOST,), **values)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("mode", "label", "expected"),
    [
        ("auto", "", True),
        ("auto", "swap", True),
        ("auto", "builtin", False),
        ("auto", "none", False),
        ("swap", "builtin", True),
        ("off", "swap", False),
    ],
)
def test_the_profile_and_the_images_label_decide(mode: str, label: str, expected: bool) -> None:
    facts = replace(FACTS, labels=((OFI_LABEL, label),) if label else ())
    assert swaps_libraries(facts, site_with(mode=mode)) is expected


def test_without_a_directory_or_without_an_image_that_could_be_read() -> None:
    assert not swaps_libraries(FACTS, Site("x", network=Network(netstack=Netstack(mode="swap"))))
    assert swaps_libraries(None, site_with())


@pytest.mark.parametrize("word", NETSTACK_MODES)
def test_an_easyconfig_may_have_another_mode_than_the_site(word: str) -> None:
    expected = "off" if word == "auto" else word
    assert with_mode(site_with(mode="off"), word).network.netstack == Netstack((HOST,), mode=expected)


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(BadInputError, match="netstack: unknown mode 'on'"):
        with_mode(site_with(), "on")


def test_a_swap_is_one_bind_before_all_others_and_one_variable() -> None:
    plan = make_plan(FACTS, site_with(search_last=("/host/usr/lib64",)), SPEC)
    assert plan.binds[0] == (HOST,)
    value = "/host/lib:${LD_LIBRARY_PATH:-/host/lib}:/host/usr/lib64"
    assert (NAMES, value) in plan.defaults
    assert set(NAMES) <= set(plan.runscripts.container.variables), (
        "or an image could not be built with the module loaded"
    )
    assert plan.runscripts.binds == plan.binds


def test_without_a_swap_no_variable_is_set_for_it() -> None:
    plan = make_plan(FACTS, site_with(mode="off"), SPEC)
    assert (HOST,) not in plan.binds
    assert not any(names == NAMES for names, _ in plan.defaults)
