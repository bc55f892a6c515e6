"""Render run scripts and wrappers: from templates and settings to bash."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Mapping

import jinja2

from hpcmod.core.errors import BadInputError
from hpcmod.core.text import quote
from hpcmod.machine.values.facts import format_cpus
from hpcmod.machine.values.site import NodeType
from hpcmod.modules.values.guard import kind_of
from hpcmod.modules.values.install_record import IN_BASH_OF_IMAGE
from hpcmod.modules.values.plan import InstallPlan, RunscriptSettings
from hpcmod.modules.values.question import make_question

LIBEXEC = "libexec/"
"""Programs for outside the container, and their parts: the same files in each installation."""


class _Literal(str):
    """A string returned by a quoting filter."""

    __slots__ = ()


SETTINGS_FILE = "lib/settings.bash"
"""The only rendered file of the run scripts: assignments of what is known of machine and image, with their reasons."""

_COMMAND = """#!/bin/bash -p
# In the container: the command of this name of the module. It finds programs of the image before such commands.
PATH=${PATH//:\\/runscripts\\/bin/}:/runscripts/bin
exec -- """


def render_runscripts(
    settings: RunscriptSettings, plan: InstallPlan | None = None, *, templates: Mapping[str, str]
) -> dict[str, str]:
    """Return the files of an installation's runscripts/ by path: the same in each installation, but for SETTINGS_FILE.

    `plan`: What in-environment sets; None: nothing.
    `templates`: Text of each file of runscripts/, by path.

    Raises BadInputError if a setting cannot be written into a script.
    """
    left_out = () if settings.container.has_bash else IN_BASH_OF_IMAGE
    plain = {
        name: text
        for name, text in templates.items()
        if not name.endswith(".j2") and not name.startswith(LIBEXEC) and name not in left_out
    }
    known = {"plan": plan, "question": _make_question(settings)}
    commands = {f"bin/{name}": f'{_COMMAND}{_words(words)} "$@"\n' for name, words in settings.container.commands}
    return {**plain, **commands, SETTINGS_FILE: _rendered(SETTINGS_FILE, templates, settings=settings, **known)}


def _make_question(settings: RunscriptSettings) -> str:
    """Return what the run script asks each node, as JSON that people can read."""
    required = tuple(group for group in settings.binds if any(bind.required for bind in group))
    asked = make_question(settings.site, settings.site.nodes.usual_first, required)
    asked = {**asked, "record": f"{settings.root}/record.json"}
    return "{\n" + ",\n".join(f" {json.dumps(key)}: {_in_lines(value)}" for key, value in asked.items()) + "\n}"


def _in_lines(value: object) -> str:
    """Return a value as JSON; an object of a list on a line of its own, for people who read it."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n  " + ",\n  ".join(map(json.dumps, value)) + "\n ]"
    return json.dumps(value)


def render_environment(plan: InstallPlan, *, templates: Mapping[str, str]) -> str:
    """Render environment.sh. It contains its own directory, because sh does not tell a sourced file its path.

    Raises BadInputError if a value cannot be written into a script.
    """
    return _rendered("environment.sh", templates, settings=plan.runscripts)


def _rendered(name: str, templates: Mapping[str, str], *, settings: RunscriptSettings, **more: object) -> str:
    template = _environment(tuple(templates.items())).get_template(f"{name}.j2")
    rows = [_node_row(node) for node in settings.site.nodes.usual_first]
    return template.render(settings=settings, node_rows=rows, **more)


def _node_row(node: NodeType) -> str:
    """Return what a run script needs to know about a node type: partitions, GPUs, and the cores near each GPU."""
    if any(re.search(r"[\s|]", partition) for partition in node.partitions):
        raise BadInputError(f"partitions {node.partitions} of node type {node.name}", "Remove blanks and |.")
    cores = " ".join(format_cpus(cores) for cores in node.gpu_cores)
    return f"{' '.join(node.partitions)}|{node.gpus}|{cores}"


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
        words=_words,
        guard_kind=lambda name, settings: kind_of(name, settings.container.user_site),
    )
    return environment


def _only_literals(value: object) -> _Literal:
    if not isinstance(value, _Literal):
        raise TypeError(f"a template writes {value!r} without a quoting filter")
    return value


def _words(texts: Iterable[str]) -> _Literal:
    """Write the elements of an array; those that are literals already stay."""
    return _Literal(" ".join(text if isinstance(text, _Literal) else quote.sh_word(text) for text in texts))


def _variable(name: str) -> _Literal:
    if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name):
        raise BadInputError(f"{name!r} is not a valid variable name", "Use letters, digits and underscores.")
    return _Literal(name)
