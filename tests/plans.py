"""Install plans for rendering tests: a typical one for each site, and one with hostile texts everywhere."""

from __future__ import annotations

import re
from dataclasses import replace

from hpcmod.core.values.facts import ImageFacts, Package, PythonFacts
from hpcmod.machine.machine import load_site
from hpcmod.machine.values.bind import Bind
from hpcmod.machine.values.site import Site, Tunable
from hpcmod.machine.values.tables import Caches, Images, ModuleRules, SiteBinds
from hpcmod.modules.values.plan import InstallPlan, make_plan, with_notices, with_own_packages
from hpcmod.modules.values.spec import InstallSpec

FACTS = ImageFacts(
    architecture="amd64",
    size=21_000_000_000,
    python=PythonFacts("/opt/miniconda3/envs/pytorch/bin/python3.12", "3.12", "/opt/miniconda3/envs/pytorch"),
    packages=(Package("numpy", "2.1.0"), Package("torch", "2.7.1+rocm6.2.4"), Package("torchvision", "0.22.1")),
    commands=("gcc", "pip", "python", "python3.12", "torchrun"),
    labels=(("org.opencontainers.image.title", "PyTorch for LUMI"),),
)
SPEC = InstallSpec(
    name="PyTorch",
    module="PyTorch/2.7.1-rocm-6.2.4-singularity",
    variable="PYTORCH",
    root="/project/software/PyTorch/2.7.1-rocm-6.2.4-singularity",
    image="lumi-pytorch-rocm-6.2.4-python-3.12-pytorch-v2.7.1.sif",
    easyconfig="PyTorch-2.7.1-rocm-6.2.4-singularity.eb",
    description="PyTorch 2.7.1 for AMD GPUs",
    homepage="https://pytorch.org/",
)

ENVIRONMENT = (("OMP_NUM_THREADS", "4"), ("SAM_CACHE", 'it\'s "here", %(name)s'))
"""Environment variables that an easyconfig sets in the container."""

HOSTILE = {
    "quotes": "a 'b' \"c\" `d`",
    "command": "$(touch pwned) `touch pwned` ; touch pwned & | > pwned",
    "variable": "$HOME ${HOME} $env(HOME) $::env(HOME) %(installdir)s",
    "newlines": "a\nb\r\nc\n\nos.exit(1)\nexit 1\nz",
    "long bracket": "]] ]==] ]=] --]] [==[ end",
    "braces": "} } { [exit 1] \\} \\{ }",
    "backslashes": "\\ \\\\ \\n \\x41 \\101 \\u0041 trailing \\",
    "jinja": "{{ 7 * 7 }} {% raw %} {# gone #}",
    "control": "\x01\x1b[31m\x7f\t\x0b1",
    "utf-8": "Gr\u00fc\u00dfe, \u4f60\u597d, \u202e\u2028",
    "utf-8 beyond 16 bits": "\U0001f525 fire",
    "comments": "-- # ; /* \" ' x",
    "formats": "%s %d %% %n x",
    "long": "word " * 5000 + "x",
    "long word": "\u00e9" * 20000,
}
"""Hostile texts that a label, a description or a path may contain, by what makes them hostile."""


def make_example(site: str, facts: ImageFacts | None = FACTS) -> InstallPlan:
    """Make the plan of LUMI's PyTorch 2.7.1 on one of the shipped sites."""
    return with_own_packages(make_plan(facts, load_site(site, {}), SPEC), "5" * 64)


def as_value(text: str) -> str:
    """Return the text as a path may contain it: without control characters and without colons, which end a path in a
    bind.
    """
    return re.sub(r"[\x01-\x1f\x7f:]", "?", text)


def as_shown(text: str) -> str:
    """Return the text as help shows it: labels of an image must neither control a terminal nor turn its text."""
    return re.sub(r"[\x01-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]", "?", text)


def make_plan_of(text: str) -> InstallPlan:
    """Make a plan in which every value from outside is this text, or contains it where a certain form is required."""
    value = as_value(text)
    inline = re.sub("[,:]", "", value)
    site = Site(
        name=value,
        images=Images(central=(f"/central/{value}",)),
        binds=SiteBinds(((Bind(f"/opt/{inline}", required=True),),), ((Bind(f"/a/{inline}", f"/b/{inline}", "ro"),),)),
        tunables=(Tunable("NCCL_SOCKET_IFNAME", value),),
        module=ModuleRules(family=value, caches=Caches(node_local=f"/tmp/{value}")),
    )
    facts = replace(
        FACTS,
        packages=(*FACTS.packages, Package(text, text), Package("numpy", text), Package(text, "1")),
        labels=((text, text), ("maintainer", text)),
    )
    spec = replace(
        SPEC,
        module=f"PyTorch/{value}",
        root=f"/software/{value}",
        image=f"{value}.sif",
        easyconfig=f"{value}.eb",
        description=text,
        homepage=text,
        binds=(Bind(f"/data/{inline}"),),
        environment=(("HOSTILE", value),),
    )
    plan = with_own_packages(make_plan(facts, site, spec), "5" * 64)
    return with_notices(plan, [f"/catalogue/{value}"], "5" * 64)
