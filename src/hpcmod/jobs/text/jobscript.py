"""Render a job plan: the batch script, or the command of one step or of an allocation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from hpcmod.core.errors import BadInputError
from hpcmod.core.text import quote
from hpcmod.jobs.values.job import JobPlan
from hpcmod.jobs.values.request import JobModule, has_shell
from hpcmod.jobs.values.requeue import MOST_REQUEUES, Requeue
from hpcmod.jobs.values.step import PYTHON, Step

_WIDTH = 110

IMAGE_MARK = "Image: sha256 "
"""Prefix of the comment that records the image of a job."""


def render_jobscript(plan: JobPlan) -> str:
    """Render the batch script of a job.

    Without jinja2, whose import and compilation take as long as the rest of `hpcmod job`.
    """
    sections = (
        _render_head(plan),
        _render_setup(plan),
        _render_check(plan),
        _render_staging(plan),
        _render_requeue(plan.requeue),
        list(_render_step(plan)),
    )
    return "\n".join("\n".join(section) + "\n" for section in sections if section)


def _render_head(plan: JobPlan) -> list[str]:
    lines = ["#!/bin/bash", f"# {quote.sh_comment(plan.title)}. Written by `hpcmod job`; edit it as you like."]
    for directive in plan.directives:
        if directive.why:
            lines.append(f"# {quote.sh_comment(directive.why)}")
        lines.append(f"#SBATCH {quote.sh_comment(directive.option)}")
    return lines


def _render_setup(plan: JobPlan) -> list[str]:
    return [
        *_render_module_command(plan.module),
        *map(quote.sh_comment, plan.commands),
        *(f"export {quote.sh_word(name)}={quote.sh_word(value)}" for name, value in plan.exports),
        *_render_loading(plan.module),
        *(_export(name, value) for name, value in plan.variables),
    ]


_CHECKS = {
    "stop": ("and say which to leave out.", '"$RUNSCRIPTS"/check-nodes || exit'),
    "resubmit": ("and submit this script again without it.", '"$RUNSCRIPTS"/check-nodes --resubmit "$0" || exit'),
}


def _render_check(plan: JobPlan) -> list[str]:
    if not plan.check:
        return []
    then, command = _CHECKS[plan.check]
    why = f"# Check all nodes before the ranks start. If one should not be used, end the job {then}"
    return [why, command]


def _render_staging(plan: JobPlan) -> list[str]:
    commands = [f"stage-image {_place(plan.stage_image)}"] if plan.stage_image else []
    commands += [f"stage-data {_place(place)} {quote.sh_word(file)}" for place, file in plan.stage_data]
    why = [f"# {quote.sh_comment(line)}" for line in plan.stage_why]
    if not commands:
        return why
    return [
        *why,
        '# Copies on every node, verified there and removed when the job ends. "$SIF" then points to the copy; if',
        "# copying fails, it is unchanged.",
        *(line for command in commands for line in (f'staged=$("$RUNSCRIPTS"/{command}) || exit', 'eval "$staged"')),
    ]


_REQUEUE = """\
# {seconds} seconds before the time limit, the program of each rank gets {signal}, so that it can write a checkpoint and
# exit. Then the job is requeued, at most {limit} times.
restart=
trap 'restart=yes; "$RUNSCRIPTS"/signal-ranks {signal}' {signal}
run() {{
    "$@" &
    local step=$! status=0
    until wait "$step" || ! kill -0 "$step" 2>/dev/null; do :; done # a signal interrupts the wait, not the step
    wait "$step" || status=$?
    [[ ! $restart ]] || requeue "$status"
    return "$status"
}}
requeue() {{
    if ((${{SLURM_RESTART_COUNT:-0}} >= {limit})); then
        echo "requeued {limit} times, which is the limit" >&2
        exit "$1"
    fi
    scontrol requeue "$SLURM_JOB_ID" && exit
    exit "$1"
}}"""


def _render_requeue(requeue: Requeue | None) -> list[str]:
    if requeue is None:
        return []
    return [_REQUEUE.format(seconds=requeue.seconds, signal=requeue.signal, limit=MOST_REQUEUES)]


_EPILOG = """\
# Remove a node's caches after its last task has ended.
export SLURM_TASK_EPILOG="${SLURM_TASK_EPILOG:-$RUNSCRIPTS/remove-caches}\""""


def _render_step(plan: JobPlan) -> Iterator[str]:
    step = plan.step
    if step.program[0] == PYTHON:
        yield from (_EPILOG, "")
    yield f"# {quote.sh_comment(step.why)}"
    if any("$" in word or "`" in word for word in step.program):
        if has_shell(step.program):
            yield "# The ranks expand variables in single quotes, not this shell."
        yield "# shellcheck disable=SC2016"
    yield f"{'run ' if plan.requeue else ''}{render_step(step)}"


def _render_module_command(module: JobModule) -> Iterator[str]:
    """Yield the comment with the image, and the lines that define the `module` command in any shell."""
    if module.sha256:
        origin = f", built from {module.source}" if module.source else ""
        yield "# " + quote.sh_comment(f"{IMAGE_MARK}{module.sha256}{origin}")
    if module.packages:
        yield "# " + quote.sh_comment(f"Packages: {module.packages}")
    if module.init or module.modulecmd or module.trees:
        yield "# For any shell, also after `sbatch --export=NONE`, which every srun would otherwise inherit."
        yield "unset SLURM_EXPORT_ENV"
        yield "export HOME=~ # if Slurm sets none"
    if module.init:
        yield f"type -t module >/dev/null || source {quote.sh_word(module.init)}"
    elif module.modulecmd:
        command = quote.sh_word(module.modulecmd)
        yield f'type -t module >/dev/null || module() {{ eval "$({command} bash "$@")"; }}'


def _render_loading(module: JobModule) -> Iterator[str]:
    """Yield the lines that load a module."""
    if module.path:
        yield f"export PATH=$PATH:{quote.sh_word(module.path)} # the container runtime"
    yield from (f"module unuse {quote.sh_word(tree)}" for tree in module.unused)
    yield from (f"module use {quote.sh_word(tree)}" for tree in module.trees)
    yield from (f"export {name}={quote.sh_word(value)}" for name, value in module.choice)
    yield f"module load {quote.sh_word(module.name)} || exit"


def render_step(step: Step) -> str:
    """Render a step as a readable, multi-line bash command."""
    command = list(map(quote.sh_word, step.command))
    starter = [f'"$RUNSCRIPTS"/{quote.sh_word(step.starter)}'] if step.starter else []
    container = [*starter, *map(quote.sh_word, step.container), '"$SIF"']
    return " \\\n    ".join(
        [*_wrap(command), *_wrap(container), *_wrap([quote.sh_word(word) for word in step.program])]
    )


_CONTAINER_ONLY = frozenset({"PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "PYTHONHOME", "HOME"})
"""Variables that would break host programs: they are set only in the container."""


def _export(name: str, value: str) -> str:
    """Return a line that sets a variable for the ranks: under its plain name, the image's own value would win."""
    prefixes = ("APPTAINERENV_", "SINGULARITYENV_")
    names = [*([] if name in _CONTAINER_ONLY else [name]), *(f"{prefix}{name}" for prefix in prefixes)]
    return "export " + " ".join(f"{variable}={quote.sh_word(value)}" for variable in names)


def make_argv(step: Step, *, image: str, runscripts: str = "") -> tuple[str, ...]:
    """Return the arguments of a step, ready to be executed."""
    starter = (f"{runscripts}/{step.starter}",) if step.starter else ()
    return (*step.command, *starter, *step.container, image, *step.program)


def _wrap(words: Sequence[str]) -> Iterator[str]:
    """Fill lines with words; a word that is too long gets its own line."""
    line = ""
    for word in words:
        if line and len(line) + 1 + len(word) > _WIDTH:
            yield line
            line = word
        else:
            line = f"{line} {word}" if line else word
    yield line


def _place(directory: str) -> str:
    """Quote a directory whose variables the job's shell must expand; refuse all else that a shell would expand."""
    if not re.fullmatch(r"(?:[^\"\\`$]|\$\w+|\$\{\w+\})+", directory):
        raise BadInputError(f"{directory!r} is not a valid staging directory", "It may contain variables, e.g. $USER.")
    return f'"{directory}"' if "$" in directory else quote.sh_word(directory)
