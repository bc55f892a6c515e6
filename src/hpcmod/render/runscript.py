"""Render run scripts and wrappers: from templates and settings to bash."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Mapping, Sequence

import jinja2

from hpcmod.errors import BadInputError
from hpcmod.model.guard import kind_of
from hpcmod.model.nodes.question import make_question
from hpcmod.model.plan import InstallPlan, RunscriptSettings
from hpcmod.model.site import NodeType
from hpcmod.render import quote
from hpcmod.render.modules.modulefile import no_sif_message

RUNSCRIPTS = (
    "check-nodes",
    "conda-python-distributed",
    "conda-python-simple",
    "get-master",
    "init-conda-venv",
    "list-packages",
    "one-per-node",
    "python-conda-simple",
    "remove-caches",
    "run-in-env",
    "signal-ranks",
    "stage-data",
    "stage-image",
    "start-report",
)
"""Names of the scripts in the run script directory; the wrappers call run-in-env."""


IN_BASH_OF_IMAGE = (
    "conda-python-distributed",
    "conda-python-simple",
    "list-packages",
    "python-conda-simple",
    "run-in-env",
    "start-report",
)
"""Those of RUNSCRIPTS that only run in the container, with the image's bash."""

PACKING_SCRIPTS = ("make-squashfs", "unmake-squashfs")
"""Programs that pack the packages in user-software/ into one file, and unpack them; names of LUMI's modules."""

ENVIRONMENT_SCRIPTS = ("in-environment", "environment.sh")
"""Replacements for the module where there is no module tool: a program, and a file to source."""


HOST_PROGRAMS = ("host-command", "host-commands")
"""Python programs below libexec/ that run commands of the host for a container: the asking one, and the helper."""


class _Literal(str):
    """A string returned by a quoting filter."""

    __slots__ = ()


SETTINGS_FILE = "lib/settings.bash"
"""The only rendered file of the run scripts: assignments of what is known of machine and image, with their reasons."""


def render_runscripts(settings: RunscriptSettings, *, templates: Mapping[str, str]) -> dict[str, str]:
    """Return the files of an installation's runscripts/ by path: the same in each installation, but for SETTINGS_FILE.

    Parameters
    ----------
    templates
        Text of each file of runscripts/, by path.

    Raises
    ------
    BadInputError
        If a setting cannot be written into a script.
    """
    left_out = () if settings.has_bash else IN_BASH_OF_IMAGE
    plain = {name: text for name, text in templates.items() if not name.endswith(".j2") and name not in left_out}
    return {
        **plain,
        SETTINGS_FILE: _rendered(SETTINGS_FILE, templates, settings=settings, question=_make_question(settings)),
    }


def _make_question(settings: RunscriptSettings) -> str:
    """Return what the run script asks each node, as JSON that people can read."""
    asked = make_question(
        settings.nodes,
        exclusive=settings.exclusive,
        interfaces=settings.nics,
        binds=settings.binds,
        places=(settings.cache_root,),
    )
    asked = {**asked, "record": f"{settings.root}/record.json", "judge": True}
    return "{\n" + ",\n".join(f" {json.dumps(key)}: {_in_lines(value)}" for key, value in asked.items()) + "\n}"


def _in_lines(value: object) -> str:
    """Return a value as JSON; an object of a list on a line of its own, for people who read it."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n  " + ",\n  ".join(map(json.dumps, value)) + "\n ]"
    return json.dumps(value)


def render_wrapper(
    command: str, settings: RunscriptSettings, *, templates: Mapping[str, str], words: Sequence[str] = ()
) -> str:
    """Render the script that runs a command in the image from outside, bin/<command> of the installation.

    Parameters
    ----------
    words
        The command line: a program by name or path, and its first arguments; empty: the command of this name.

    Raises
    ------
    BadInputError
        If the command is not a valid file name, or a setting cannot be written into a script.
    """
    if command in ("", ".", "..") or "/" in command:
        raise BadInputError(f"{command!r} is not a valid command name", "List commands by name, without a path.")
    return _rendered("wrapper", templates, settings=settings, command=command, words=words or (command,))


def render_packing(name: str, settings: RunscriptSettings, *, templates: Mapping[str, str]) -> str:
    """Render one of PACKING_SCRIPTS for bin/ of the installation.

    Raises
    ------
    BadInputError
        If a setting cannot be written into a script.
    """
    return _rendered(name, templates, settings=settings)


def render_start_shell(settings: RunscriptSettings, *, templates: Mapping[str, str]) -> str:
    """Render bin/start-shell.

    Raises
    ------
    BadInputError
        If a setting cannot be written into a script.
    """
    return _rendered("start-shell", templates, settings=settings)


def render_runtime(command: str, settings: RunscriptSettings, *, templates: Mapping[str, str]) -> str:
    """Render bin/<command> for one of RUNTIMES: the runtime itself, without the module's environment when it builds.

    Raises
    ------
    BadInputError
        If a setting cannot be written into a script.
    """
    return _rendered("runtime", templates, settings=settings, command=command)


def render_mount(settings: RunscriptSettings, *, templates: Mapping[str, str]) -> str:
    """Render libexec/squashfuse_ll, which keeps the image mounted when Slurm signals all processes.

    Raises
    ------
    BadInputError
        If a setting cannot be written into a script.
    """
    return _rendered("squashfuse_ll", templates, settings=settings)


def render_host_programs(settings: RunscriptSettings, *, templates: Mapping[str, str]) -> dict[str, str]:
    """Return the texts of HOST_PROGRAMS by name; empty if the site profile allows no commands of the host."""
    return {name: templates[f"{name}.j2"] for name in HOST_PROGRAMS} if settings.host_commands.allowed else {}


def render_environment(name: str, plan: InstallPlan, *, templates: Mapping[str, str]) -> str:
    """Render one of ENVIRONMENT_SCRIPTS: the complete environment of the module, in bash.

    Raises
    ------
    BadInputError
        If a value cannot be written into a script.
    """
    return _rendered(name, templates, settings=plan.runscripts, plan=plan, no_sif=no_sif_message(plan))


def _rendered(
    name: str, templates: Mapping[str, str], *, settings: RunscriptSettings, command: str = "", **more: object
) -> str:
    if settings.gpus_per_rank not in ("one", "all"):
        raise BadInputError(f"gpus_per_rank is {settings.gpus_per_rank!r}", "Use 'one' or 'all'.")
    template = _environment(tuple(templates.items())).get_template(f"{name}.j2")
    rows = [_node_row(node) for node in settings.nodes]
    return template.render(settings=settings, command=command, node_rows=rows, reason=_Reasons(settings), **more)


class _Reasons:
    """Why the profile sets a variable to a value, for the comments of settings.bash."""

    def __init__(self, settings: RunscriptSettings) -> None:
        self._reasons = {(name, value): why for name, value, why in settings.tunable_reasons}

    def __call__(self, name: str, value: str) -> str:
        why = self._reasons.get((name, value))
        return f" # {why}" if why else ""


def _node_row(node: NodeType) -> str:
    """Return what a run script needs to know about a node type: partitions, GPUs, and the cores near each GPU."""
    if any(re.search(r"[\s|]", partition) for partition in node.partitions):
        raise BadInputError(f"partitions {node.partitions} of node type {node.name}", "Remove blanks and |.")
    cores = " ".join(_write_ranges(cores) for cores in node.gpu_cores)
    return f"{' '.join(node.partitions)}|{node.gpus}|{cores}"


def _write_ranges(cores: Iterable[int]) -> str:
    """Return cores in the notation of taskset and Linux: 1-7,9."""
    ranges: list[list[int]] = []
    for core in sorted(cores):
        if ranges and ranges[-1][-1] == core - 1:
            ranges[-1][1:] = [core]
        else:
            ranges.append([core])
    return ",".join("-".join(map(str, ends)) for ends in ranges)


@functools.lru_cache(maxsize=1)  # an installation renders a dozen scripts from the same templates
def _environment(templates: tuple[tuple[str, str], ...]) -> jinja2.Environment:
    # Bash uses ${#array[@]}, in which `{#` would open a Jinja2 comment.
    environment = jinja2.Environment(  # noqa: S701 - the quoting filters are our escaping, and none is left out
        loader=jinja2.DictLoader(dict(templates)),
        undefined=jinja2.StrictUndefined,
        finalize=_only_literals,
        comment_start_string="{##",
        comment_end_string="##}",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(
        sh=lambda text: _Literal(quote.sh(text)),
        sh_comment=lambda text: _Literal(quote.sh_comment(text)),
        variable=_variable,
        guard_kind=lambda name, settings: kind_of(name, settings.user_site),
    )
    return environment


def _only_literals(value: object) -> _Literal:
    if not isinstance(value, _Literal):
        raise TypeError(f"a template writes {value!r} without a quoting filter")
    return value


def _variable(name: str) -> _Literal:
    if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name):
        raise BadInputError(f"{name!r} is not a valid variable name", "Use letters, digits and underscores.")
    return _Literal(name)
