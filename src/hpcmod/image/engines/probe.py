"""Which engines work here: each builds an image of one line, for a program on PATH says little."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hpcmod.errors import BadInputError, HpcmodError, LackingError, explain_os_error
from hpcmod.image.engines.apptainer import WAYS, Apptainer
from hpcmod.image.engines.buildah import Buildah
from hpcmod.image.engines.docker import Docker
from hpcmod.image.engines.engine import BuildSource, Engine, EngineFinding
from hpcmod.image.engines.place import open_place
from hpcmod.image.engines.podman import Podman
from hpcmod.image.engines.trial import write_trial

_LOG = logging.getLogger(__name__)

_FAULT = re.compile(r"error|fatal|cannot", re.IGNORECASE)
_STORAGES = ("overlay", "fuse-overlayfs", "vfs")
"""Ways to keep layers, the quickest first: vfs copies the whole image for each."""

ENGINES: Mapping[str, tuple[Engine, ...]] = {
    "buildah": tuple(Buildah(storage) for storage in _STORAGES),
    "podman": tuple(Podman(storage) for storage in _STORAGES),
    "docker": (Docker(),),
    **{engine.name: (engine,) for engine in map(Apptainer, WAYS)},
}
"""Every engine in each of its ways, the best first."""


@dataclass(frozen=True)
class EngineTrial:
    """Where engines are tried."""

    at: Path
    """A directory on the disk on which the image will be built."""
    name: str
    """Of the trial: no two processes may use the same there."""
    environ: Mapping[str, str]


def probe_engines(environ: Mapping[str, str], *, at: Path) -> tuple[EngineFinding, ...]:
    """Try every engine.

    Parameters
    ----------
    at
        Directory for what is tried, on the disk on which images will be built: not every disk can hold their layers.
    """
    trial = EngineTrial(at, f"trial-{os.getpid()}", environ)
    return tuple(_try_ways(name, trial)[1] for name in ENGINES)


def choose_engine(asked: str | None, trial: EngineTrial, *, forms: Sequence[str]) -> Engine:
    """Find the first engine that works here, or check the one that is asked for.

    Parameters
    ----------
    asked
        Name of an engine, or its beginning: `apptainer` is the first of its ways that works. None for any.
    forms
        From what it must be able to build: `Dockerfile`, `definition`.

    Raises
    ------
    BadInputError
        If there is no such engine, or it cannot build from what there is.
    LackingError
        If none works, with what was found of each.
    """
    findings = []
    for name in find_engines(asked, forms):
        engine, finding = _try_ways(name, trial)
        if engine:
            _LOG.info("building with %s (%s)", name, engine.way)
            return engine
        _LOG.info("%s does not work here: %s", name, finding.why)
        findings.append(f"  {finding.name}: {finding.why}")
    raise LackingError(
        f"no engine to build with works in {trial.at}:\n" + "\n".join(findings),
        "Install or load one of them (buildah needs no daemon); a disk that can hold no layers is left by "
        "HPCMOD_BUILD_DIR=DIRECTORY, of a local disk.",
    )


def find_engines(asked: str | None, forms: Sequence[str]) -> list[str]:
    """Name the engines that may be tried, of those that there are: that is known without trying any.

    Raises
    ------
    BadInputError
        If there is no such engine, or it cannot build from what there is.
    """
    names = [name for name in ENGINES if asked in (None, name) or name.startswith(f"{asked}-")]
    if not names:
        raise BadInputError(f"there is no engine {asked!r}", f"There are: {', '.join(ENGINES)}.")
    fitting = [name for name in names if ENGINES[name][0].form in forms]
    if not fitting:
        raise BadInputError(
            f"the engine {asked} builds from a {ENGINES[names[0]][0].form}, and this is to be built from a {forms[0]}",
            "Leave --engine out, so that one that fits is found.",
        )
    return fitting


def _try_ways(name: str, trial: EngineTrial) -> tuple[Engine | None, EngineFinding]:
    """Try the ways of an engine until one works."""
    reasons = []
    for engine in ENGINES[name]:
        why_not = _why_not(engine, trial)
        if not why_not:
            return engine, EngineFinding(name, True, engine.way)
        reasons.append(f"{engine.way}: {why_not}" if len(ENGINES[name]) > 1 else why_not)
    said = [reasons[0].partition(": ")[2]] if len({one.partition(": ")[2] for one in reasons}) == 1 else reasons
    return None, EngineFinding(name, False, "; ".join(said if len(reasons) > 1 else reasons))


def _why_not(engine: Engine, trial: EngineTrial) -> str:
    """Return why an engine does not work; empty if it does."""
    lacks = engine.lacks(trial.environ)
    if lacks:
        return lacks
    try:
        with open_place(trial.at, trial.name, trial.environ) as place:
            write_trial(place.context)
            engine.build(place, BuildSource(place.context, place.context / engine.form, None))
    except HpcmodError as err:
        return _main_line(err.message)
    except OSError as err:
        return explain_os_error(err).message
    return ""


def _main_line(message: str) -> str:
    """Find the line of a failed program's last words that says what is wrong."""
    lines = [line.removeprefix("  | ").strip() for line in message.splitlines()]
    lines = [line for line in lines if line] or [message]
    return next((line for line in lines if _FAULT.match(line)), lines[-1])
