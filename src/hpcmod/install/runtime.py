"""Find this machine's container runtime, and check that it starts an image."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from hpcmod.errors import CheckFailedError
from hpcmod.model.site import RUNTIMES
from hpcmod.render.quote import sh_word
from hpcmod.which import which


def find_runtime(environ: Mapping[str, str]) -> str | None:
    """Return the runtime on PATH; None if there is none."""
    return next((path for name in RUNTIMES if (path := which(name, environ))), None)


def check_starts(image: Path, runtime: str, environ: Mapping[str, str]) -> None:
    """Start an image and run `true` in it, without the binds and variables of the caller's environment.

    Raises
    ------
    CheckFailedError
        With the runtime's output.
    """
    from hpcmod.process import run  # a batch script only needs the runtime's name

    clean = {name: value for name, value in environ.items() if not name.startswith(("SINGULARITY", "APPTAINER"))}
    done = run([runtime, "exec", os.fspath(image), "true"], env=clean)
    if done.status != 0:
        said = "\n".join(done.stderr.strip().splitlines()[-3:])
        raise CheckFailedError(
            f"{image} does not start: {runtime} exec ended with {done.status}\n{said}",
            f"Try it yourself: {runtime} exec {image} true",
        )


def start_commands(environ: Mapping[str, str], *, warn: Callable[[str], None]) -> list[str]:
    """Return shell commands that start the image of a loaded module; warn and return none without a runtime."""
    found = find_runtime(environ)
    if not found:
        warn("No container runtime on this machine, so the image was not started")
    return [f'{sh_word(found)} exec "$SIF" true'] if found else []


def prover(environ: Mapping[str, str]) -> Callable[[Path], None]:
    """Return a check that an image starts; without a runtime, a check that accepts every image."""
    found = find_runtime(environ)
    return (lambda image: check_starts(image, found, environ)) if found else (lambda image: None)
