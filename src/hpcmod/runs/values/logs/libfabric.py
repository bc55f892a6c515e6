"""Rules for the logs of libfabric (FI_LOG_LEVEL) and UCX (UCX_LOG_LEVEL)."""

from __future__ import annotations

from hpcmod.runs.values.logs.rule import PROBLEM, REASON, Rule

_MAN = "https://ofiwg.github.io/libfabric/main/man/fabric.7.html"
_UCX = "https://github.com/openucx/ucx/pull/3511"

RULES = (
    Rule("fabric", "libfabric", "Opened fabric: ", r"Opened fabric: (?P<f>\S+)", (("fabric", "{f}"),), source=_MAN),
    Rule(
        "unavailable",
        "libfabric",
        "fi_getinfo: provider ",
        r"fi_getinfo: provider (?P<p>\S+) (?:returned -\d+|output empty list)",
        (("unavailable", "{p}"),),
        source="https://github.com/ofiwg/libfabric/issues/5787",
    ),
    Rule(
        "mr-mode",
        "libfabric",
        "Invalid memory registration mode",
        r"cxi:\S+ Invalid memory registration mode",
        kind=REASON,
        meaning="a program asked the cxi provider for a kind of memory registration that it does not have",
        cure="Normal while a program tries providers. If no provider is left, use a plugin for this libfabric.",
        source=_MAN,
    ),
    Rule(
        "cxi-resource",
        "libfabric",
        "cxi",
        r"cxi[^\s<]*<warn>[^<]*[Rr]esource busy",
        kind=PROBLEM,
        meaning="the Slingshot card has no free resource for this process",
        cure="Check for processes left on the node; do not start several steps at once without --network=job_vni.",
        source="https://ofiwg.github.io/libfabric/main/man/fi_cxi.7.html",
    ),
    Rule("lines", "libfabric", "libfabric:", r"libfabric:\S*<(?:info|debug|trace)>"),
    Rule("ucx-version", "UCX", "ersion ", r"UCX  ?INFO +Version (?P<v>[\d.]+)", (("version", "UCX {v}"),)),
    Rule("ucx-of-pml", "UCX", "UCX version ", r"UCX version (?P<v>\d[\d.]*\d)", (("version", "UCX {v}"),)),
    Rule(
        "ucx-lanes",
        "UCX",
        "tag(",
        r"(?:ep_cfg\[\d+\]:|cfg#\d+) *tag\(",
        (),
        (("ucx", r"[( ](\w+)/[\w.:-]+(?=[ )])"),),
        source=_UCX,
    ),
    Rule("ucx-lines", "UCX", "UCX", r" UCX +(?:INFO|DEBUG|TRACE|DATA|REQ|FUNC) "),
)
