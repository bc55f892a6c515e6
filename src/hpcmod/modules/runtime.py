"""Check that this machine's container runtime starts an image."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hpcmod.core.errors import CheckFailedError
from hpcmod.machine import find_runtime


def host_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment whose PATH lacks the wrappers of a loaded module: programs are the host's."""
    wrappers = f"{environ.get('CONTAINERROOT') or os.devnull}/bin"
    path = ":".join(directory for directory in environ.get("PATH", "").split(":") if directory != wrappers)
    return {**environ, "PATH": path}


def check_starts(image: Path, runtime: str, environ: Mapping[str, str], trial: Sequence[str]) -> None:
    """Start an image, without the binds and variables of the caller's environment.

    `trial`: Command line to run in it; see ImageFacts.trial.

    Raises CheckFailedError with the runtime's output.
    """
    from hpcmod.core.process import run  # a batch script only needs the runtime's name

    clean = {name: value for name, value in environ.items() if not name.startswith(("SINGULARITY", "APPTAINER"))}
    done = run([runtime, "exec", os.fspath(image), *trial], env=clean)
    if done.status != 0:
        said = "\n".join(done.stderr.strip().splitlines()[-3:])
        raise CheckFailedError(
            f"{image} does not start: {runtime} exec ended with {done.status}\n{said}",
            f"Try it yourself: {runtime} exec {image} {shlex.join(trial)}",
        )


def start_commands(environ: Mapping[str, str], trial: Sequence[str], *, warn: Callable[[str], None]) -> list[str]:
    """Return shell commands that start the image of a loaded module; warn and return none if it cannot be started.

    `trial`: Command line to run in the image; see ImageFacts.trial.
    """
    runtime = find_runtime(environ)
    if not runtime:
        warn("No container runtime on this machine, so the image was not started")
    elif not trial:
        warn("The image was not started: it has neither true nor sh. Give a command of it in sanity_check_commands")
    # by its name, as users do: the module may have a program of that name, which passes each bind only once
    return [f'{Path(runtime).name} exec "$SIF" {shlex.join(trial)}'] if runtime and trial else []


def prover(environ: Mapping[str, str], trial: Sequence[str]) -> Callable[[Path], None]:
    """Return a check that an image starts; one that accepts every image if there is no runtime, or no trial."""
    runtime = find_runtime(environ)
    return (lambda image: check_starts(image, runtime, environ, trial)) if runtime and trial else (lambda image: None)
