"""Small build plans for tests: bash scripts that run on top of the base image from dev/stack."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from hpcmod.building.image import BuildOptions, Built, build_image
from hpcmod.building.values.build_plan import BuildPlan, BuildStep, with_fingerprint
from hpcmod.core.values.facts import architecture_name


def make_plan(base: Path | str, *scripts: str, inputs: tuple[tuple[str, str], ...] = ()) -> BuildPlan:
    """Make a plan whose components are named first, second, ..."""
    names = ("first", "second", "third")
    plan = BuildPlan(
        recipe="trial",
        base=f"oci:{base}" if isinstance(base, Path) else base,
        architecture=architecture_name(os.uname().machine),
        steps=tuple(BuildStep(name, script, (("WORDS", "a b"),)) for name, script in zip(names, scripts)),
        options=(("mpi", "none"),),
        labels=(("org.hpcmod.recipe", "trial"), ("org.hpcmod.options", "mpi=none ofi=swap")),
        environment=(("TRIAL", "of the recipe"),),
        search_paths=(("PATH", "/opt/trial/bin"),),
        inputs=inputs,
    )
    return with_fingerprint(plan, contents="")


def build(
    plan: BuildPlan,
    out: Path,
    *,
    engine: str | None = "buildah",
    environ: Mapping[str, str] | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Built:
    """Build as `hpcmod build` does, but keep the state next to the image, not in the user's home."""
    state = {"XDG_STATE_HOME": str(out.parent / "state")}
    options = BuildOptions({**(environ or os.environ), **state}, engine=engine, tell=tell)
    return build_image(plan, out, options=options)


def left_behind(directory: Path) -> list[str]:
    """List what a build left behind, other than the image, its provenance, its log and its state."""
    kept = (".sif", ".provenance.json", ".build.log", "state")
    return sorted(path.name for path in directory.iterdir() if not path.name.endswith(kept))


def engine_processes(mark: str) -> list[str]:
    """List the command lines of processes that an engine started: those with `mark` in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (path / "environ").read_bytes():
                found.append((path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return found
