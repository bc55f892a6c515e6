"""Judge whether a planted fault was named, and find false alarms."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.planted.plants import BENCH, CHECK, HEALTHY, VERIFY_NET, Plant

FOUND, MISSED = "found", "missed"
_ALLOWED = ("answer",)


@dataclass(frozen=True)
class Verdict:
    """The verdict on a plant."""

    outcome: str
    named: str
    """The finding that names the fault; if missed, what was reported instead."""
    alarms: tuple[str, ...] = ()
    """Findings about anything that was not planted."""


def judge(plant: Plant, said: Mapping[str, Any]) -> Verdict:
    """Compare a command's report with what was planted."""
    if plant.command in (CHECK, VERIFY_NET, BENCH):
        if "findings" not in said:
            return Verdict(MISSED, f"no answer: {said.get('stderr', '')[-300:]}")
        return (_judge_nodes if plant.command == CHECK else _judge_run)(plant, said)
    if "doing" not in said:
        return Verdict(MISSED, f"no answer: {said.get('stderr', '')[-300:]}")
    return (_judge_live if plant.live else _judge_ended)(plant, said)


def _judge_nodes(plant: Plant, said: Mapping[str, Any]) -> Verdict:
    slow = plant.kind == "slow"
    planted = {fault.partition("=")[0] for fault in plant.faults}
    found = [one for one in said["findings"] if one["level"] == "fail" or (slow and one["rule"] in plant.rules)]
    named, others = [], []
    for one in found:
        right = one["subject"] in planted and one["rule"] in plant.rules and plant.told in one["found"]
        (named if right else others).append(f"{one['subject']} {one['rule']}")
    complete = planted == {one.split()[0] for one in named}
    if plant.kind == HEALTHY:
        return Verdict(FOUND, "", tuple(others))
    told = named or [f"{one['level']} {one['subject']} {one['rule']}" for one in said["findings"]]
    return Verdict(FOUND if complete else MISSED, ", ".join(told), tuple(others))


def _judge_run(plant: Plant, said: Mapping[str, Any]) -> Verdict:
    found = [one for one in said["findings"] if one["level"] == "fail"]
    if plant.kind == HEALTHY:
        return Verdict(FOUND if "points" in said or said.get("ranks") else MISSED, "", _rules(found))
    named = [one for one in found if one["rule"] in plant.rules]
    complete = named and plant.told in json.dumps(said["findings"])
    others = [one for one in found if one not in named and one["rule"] not in plant.besides]
    told = ", ".join(_rules(named if complete else found)) or said.get("stderr", "")[-200:]
    return Verdict(FOUND if complete else MISSED, told, _rules(others))


def _rules(findings: list[Mapping[str, Any]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one["rule"] for one in findings))


def _judge_live(plant: Plant, said: Mapping[str, Any]) -> Verdict:
    if plant.kind == HEALTHY:
        return Verdict(FOUND, "", (said["verdict"],) if said["failed"] else ())
    mine = [one for one in said["doing"] if one["ranks"] == [plant.rank] and plant.told in one["what"]]
    others = [one for one in said["doing"] if one not in mine and not one["waits"]]
    if mine and not others and said["failed"]:
        return Verdict(FOUND, f"rank {plant.rank}: {mine[0]['what']}")
    told = "; ".join(f"{one['ranks']} {one['what']}" for one in said["doing"]) or "; ".join(said["unknown"])
    return Verdict(MISSED, told)


def _judge_ended(plant: Plant, said: Mapping[str, Any]) -> Verdict:
    cause, mismatch = said["cause"], said["mismatch"]
    if plant.kind == HEALTHY:
        return Verdict(FOUND, "", (cause["rule"] if cause else said["verdict"] or "failed",) if said["failed"] else ())
    if "mismatch" in plant.rules:
        calls = {one["call"].split()[0]: one["ranks"] for one in mismatch["calls"]} if mismatch else {}
        missing = [one["rank"] for one in mismatch["missing"]] if mismatch else []
        right = [plant.rank] in calls.values() or missing == [plant.rank]
        return Verdict(FOUND if right else MISSED, f"{mismatch or cause}"[:300])
    named = f"{cause['rule']} rank {cause['ranks']} {cause['host']}" if cause else "nothing"
    if plant.kind == "bind":
        hints = [one for one in said["hints"] if one["rule"] in plant.rules and plant.told in one["text"]]
        right = bool(hints and cause and plant.rank in cause["ranks"])
        return Verdict(FOUND if right else MISSED, ", ".join([named, *(one["rule"] for one in hints)]))
    ranks = cause["ranks"] if cause else []
    whole = json.dumps(said)
    right = bool(cause) and cause["rule"] in plant.rules and plant.told in whole
    if plant.kind in ("killed", "tmp", "shm"):
        right = right and ranks == [plant.rank]
    wrong = () if right or not cause or cause["kind"] != "cause" else (cause["rule"],)
    return Verdict(FOUND if right else MISSED, named, wrong)
