"""Render the install plan for `--dry-run`: files on disk, and what the module does."""

from __future__ import annotations

from collections.abc import Iterator

from hpcmod.machine.values.site import RUNTIMES
from hpcmod.modules.values.install_record import IN_BASH_OF_IMAGE, RUNSCRIPTS
from hpcmod.modules.values.plan import InstallPlan


def render_plan(plan: InstallPlan) -> Iterator[str]:
    """Yield the lines of a plan, one fact per line; the last one says where it goes."""
    yield f"module {plan.spec.module} (site profile: {plan.site.name})"
    if plan.image_mode == "central":
        yield "image: used in place"
    else:
        yield f"image: {plan.own_sif} ({plan.image_mode})"
    yield from (f"image searched at load: {place}" for place in plan.sif_places)
    has_bash = plan.has_bash
    runscripts = [name for name in RUNSCRIPTS if has_bash or name not in IN_BASH_OF_IMAGE]
    yield f"run scripts in {plan.runscripts_directory}: {', '.join(runscripts)}"
    wrappers = (*plan.commands, *RUNTIMES, *(["start-shell"] if has_bash else []))
    yield f"wrappers in {plan.spec.root}/bin: {', '.join(wrappers)}"
    yield f"keeps the image mounted when a job receives a signal: {plan.spec.root}/libexec/squashfuse_ll"
    if plan.site.module.host_commands.allowed:
        yield f"commands of the host, with HPCMOD_HOST_COMMANDS=1: {', '.join(plan.site.module.host_commands.allowed)}"
    if plan.user_layer:
        yield f"user packages: {plan.user_layer.directory}, {plan.user_layer.venv} in the container"
    yield from (f"bind if it exists: {' else '.join(str(bind) for bind in group)}" for group in plan.binds)
    yield from (f"set: {name}={value}" for name, value in plan.own)
    yield from (f"set unless already set: {names[0]}={value}" for names, value in plan.defaults)
    yield from (f"set in the container unless already set: {name}={value}" for name, value in plan.spec.environment)
    yield f"first on PATH in the container: {':'.join(plan.container_path)}"
    yield f"Python packages listed: {len(plan.packages)}"
    yield f"directory: {plan.spec.root}"
