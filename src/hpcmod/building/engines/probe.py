"""Find which engines work here by building an image of one file, because a program on PATH may still not work."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Union

from hpcmod.building.engines.apptainer import WAYS, Apptainer
from hpcmod.building.engines.buildah import Buildah, Podman
from hpcmod.building.engines.engine import BuildSource
from hpcmod.building.engines.workspace import open_workspace
from hpcmod.core.errors import BadInputError, HpcmodError, LackingError, explain_os_error
from hpcmod.core.log import Logger

_LOG = Logger(__name__)

_DOCKERFILE = """\
FROM scratch
COPY --chown=33:33 file /file
"""
"""The owner is not root: packages have such files, and an engine that cannot create them would fail late."""

_DEFINITION = """\
Bootstrap: scratch
%files
    file /file
"""

_FAULT = re.compile(r"error|fatal|cannot", re.IGNORECASE)
_STORAGES = ("overlay", "fuse-overlayfs", "vfs")
"""Storage drivers, fastest first: vfs copies the complete image for each layer."""

Engine = Union[Buildah, Apptainer]
"""One program with one of its methods of building images."""

ENGINES: Mapping[str, tuple[Engine, ...]] = {
    "buildah": tuple(Buildah(storage) for storage in _STORAGES),
    "podman": tuple(Podman(storage) for storage in _STORAGES),
    **{engine.name: (engine,) for engine in map(Apptainer, WAYS)},
}
"""All engines with their methods, best first."""


@dataclass(frozen=True)
class EngineTrial:
    """Where engines are tested."""

    at: Path
    """Directory on the disk where the image will be built."""
    name: str
    """Name of the trial, unique among processes in that directory."""
    environ: Mapping[str, str]


def choose_engine(asked: str | None, trial: EngineTrial, *, forms: Sequence[str]) -> Engine:
    """Return the first engine that works here, or check the requested engine.

    `asked`: Name of an engine or its prefix: `apptainer` is the first of its methods that works. None for any.
    `forms`: Forms that it may build from: `Dockerfile`, `definition`.

    Raises BadInputError if there is no such engine, or it cannot build from any of the forms; LackingError if none
    works, with the reason for each.
    """
    findings = []
    for name in find_engines(asked, forms):
        reasons = {}
        for engine in ENGINES[name]:
            reasons[engine.way] = _why_not(engine, trial)
            if not reasons[engine.way]:
                _LOG.info("building with %s (%s)", name, engine.way)
                return engine
        same = set(reasons.values())
        why = same.pop() if len(same) == 1 else "; ".join(f"{way}: {reason}" for way, reason in reasons.items())
        _LOG.info("%s does not work here: %s", name, why)
        findings.append(f"  {name}: {why}")
    raise LackingError(
        f"no build engine works in {trial.at}:\n" + "\n".join(findings),
        "Install or load one of them (buildah needs no daemon); if the disk does not support layers, set "
        "HPCMOD_BUILD_DIR to a directory on a local disk.",
    )


def find_engines(asked: str | None, forms: Sequence[str]) -> list[str]:
    """Return the names of the engines to test, without testing them.

    Raises BadInputError if there is no such engine, or it cannot build from any of the forms.
    """
    names = [name for name in ENGINES if asked in (None, name) or name.startswith(f"{asked}-")]
    if not names:
        raise BadInputError(f"unknown engine {asked!r}", f"Choose one of: {', '.join(ENGINES)}.")
    fitting = [name for name in names if ENGINES[name][0].form in forms]
    if not fitting:
        raise BadInputError(
            f"the engine {asked} builds from a {ENGINES[names[0]][0].form}, but this image is built from a {forms[0]}",
            "Leave out --engine to choose one automatically.",
        )
    return fitting


_LONGEST = 400
"""Characters of a program's error that are shown: buildah prints its whole request between what failed and why."""


def _why_not(engine: Engine, trial: EngineTrial) -> str:
    """Return why an engine does not work; empty if it works."""
    lacks = engine.lacks(trial.environ)
    if lacks:
        return lacks
    try:
        with open_workspace(trial.at, trial.name, trial.environ) as workspace:
            _write_context(workspace.context)
            engine.build(workspace, BuildSource(workspace.context, workspace.context / engine.form, None))
    except HpcmodError as err:
        return _main_line(err.message)
    except OSError as err:
        return explain_os_error(err).message
    return ""


def _write_context(context: Path) -> None:
    """Write the build context of the test image."""
    (context / "Dockerfile").write_text(_DOCKERFILE)
    (context / "definition").write_text(_DEFINITION)
    (context / "file").touch()


def _main_line(message: str) -> str:
    """Return the line of a failed program's output that describes the error."""
    lines = [line.removeprefix("  | ").strip() for line in message.splitlines()]
    lines = [line for line in lines if line] or [message]
    line = next((line for line in lines if _FAULT.match(line)), lines[-1])
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST // 2]} ... {line[-_LONGEST // 2 :]}"
