"""Render a job plan: the batch script, or one srun, salloc or sbatch command."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence

import jinja2

from hpcmod.errors import BadInputError
from hpcmod.model.jobs.job import JobPlan
from hpcmod.model.jobs.module import JobModule
from hpcmod.model.jobs.step import PYTHON, Step
from hpcmod.render import quote

_TEMPLATE = "jobscript.sh.j2"
_WIDTH = 110

IMAGE_MARK = "Image: sha256 "
"""Prefix of the comment that records the image of a job."""


def render_jobscript(plan: JobPlan, *, templates: Mapping[str, str]) -> str:
    """Render the batch script of a job.

    Parameters
    ----------
    templates
        Text of each template of this package, by file name.
    """
    steps = (*plan.before, plan.step, *plan.then)
    text = _template(templates[_TEMPLATE]).render(
        plan=plan,
        loading=list(_render_loading(plan.loading)),
        steps=[(step.why, render_step(step), _has_shell_words(step)) for step in steps],
        cached=any(step.program[:1] == (PYTHON,) for step in steps),
        variables=[(name, _export(name, value)) for name, value in plan.variables],
    )
    return re.sub(r"\n{3,}", "\n\n", text)


@functools.lru_cache(maxsize=1)  # a catalogue's documentation renders one for each container
def _template(text: str) -> jinja2.Template:
    environment = jinja2.Environment(  # noqa: S701 - the quoting filters are our escaping
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    environment.filters.update(
        sh_word=quote.sh_word, sh_comment=quote.sh_comment, sh_place=_place, sh_line=quote.sh_comment
    )
    return environment.from_string(text)


def _render_loading(module: JobModule) -> Iterator[str]:
    """Yield the lines that load a module in any shell, and the comment with its image."""
    if module.sha256:
        origin = f", built from {module.source}" if module.source else ""
        yield "# " + quote.sh_comment(f"{IMAGE_MARK}{module.sha256}{origin}")
    if module.init or module.modulecmd or module.trees:
        yield "# For any shell, also after `sbatch --export=NONE`, which every srun would otherwise inherit."
        yield "unset SLURM_EXPORT_ENV"
    if module.init:
        yield f"type -t module >/dev/null || source {quote.sh_word(module.init)}"
    elif module.modulecmd:
        command = quote.sh_word(module.modulecmd)
        yield f'type -t module >/dev/null || module() {{ eval "$({command} bash "$@")"; }}'
    if module.path:
        yield f"export PATH=$PATH:{quote.sh_word(module.path)} # the container runtime"
    yield from (f"module unuse {quote.sh_word(tree)}" for tree in module.unused)
    yield from (f"module use {quote.sh_word(tree)}" for tree in module.trees)
    yield f"module load {quote.sh_word(module.name)} || exit"


def render_step(step: Step) -> str:
    """Render one srun as a readable, multi-line bash command."""
    srun = ["srun", *map(quote.sh_word, step.srun)]
    container = [*map(quote.sh_word, step.container), '"$SIF"']
    return " \\\n    ".join([*_wrap(srun), *_wrap(container), *_wrap([quote.sh_word(word) for word in step.program])])


def _has_shell_words(step: Step) -> bool:
    return any("$" in word or "`" in word for word in step.program)


_CONTAINER_ONLY = frozenset({"PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "PYTHONHOME", "HOME"})
"""Variables that would break host programs: they are set only in the container."""


def _export(name: str, value: str) -> str:
    """Return a line that sets a variable for the ranks: under its plain name, the image's own value would win."""
    prefixes = ("APPTAINERENV_", "SINGULARITYENV_")
    names = [*([] if name in _CONTAINER_ONLY else [name]), *(f"{prefix}{name}" for prefix in prefixes)]
    return "export " + " ".join(f"{one}={quote.sh_word(value)}" for one in names)


def make_argv(step: Step, *, image: str) -> tuple[str, ...]:
    """Return the arguments of one srun, ready to be executed."""
    return ("srun", *step.srun, *step.container, image, *step.program)


_OF_SCRIPTS = ("--output=", "--error=", "--job-name=", "--array=")
"""Options of sbatch that salloc lacks, or that an allocation does not need."""


def make_salloc(plan: JobPlan) -> tuple[str, ...]:
    """Return the arguments of the salloc that requests the same resources as the batch script."""
    options = [each.option for each in plan.directives if not each.option.startswith(_OF_SCRIPTS)]
    return ("salloc", *(word for option in options for word in option.split()))


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
    """Quote a directory whose variables the job's shell must expand.

    Raises
    ------
    BadInputError
        If it contains anything else that a shell would expand.
    """
    if not re.fullmatch(r"(?:[^\"\\`$]|\$\w+|\$\{\w+\})+", directory):
        raise BadInputError(f"{directory!r} is not a valid staging directory", "It may contain variables, e.g. $USER.")
    return f'"{directory}"' if "$" in directory else quote.sh_word(directory)
