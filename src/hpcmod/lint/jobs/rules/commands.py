"""Rules for batch scripts: commands that the wrong shell reads."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hpcmod.lint.jobs.reading.calls import SHELLS
from hpcmod.lint.jobs.reading.look import Fault, Rule, ScriptContext, is_unescaped

_BUILTINS = {"cd", "source", ".", "export", "eval", "set", "unset", "ulimit", "trap", "alias", "conda activate"}
_OF_CONTAINER = ("WITH_CONDA", "WITH_VENV", "WITH_CONDA_VENV", "INIT_CONDA_VENV")
"""Variables that are set only in the container, on LUMI and with hpcmod's modules."""


def _shell_in_container(look: ScriptContext) -> Iterator[Fault]:
    for call in look.calls:
        if not call.container or call.inner or not call.program:
            continue
        if call.program[0].plain in _BUILTINS:
            name = call.program[0].plain
            what = f"{name} is a shell builtin, not a program in the container"
            yield call.program[0].line, what, f"Write bash -c '{name} ... && program' after the image."


def _container_variable(look: ScriptContext) -> Iterator[Fault]:
    for call in look.calls:
        for word in () if call.inner or not call.container else call.words:
            early = [name for name in _OF_CONTAINER if name not in look.names and is_unescaped(word.text, name)]
            if early:
                what = f"${early[0]} is a variable of the container, which is empty in the batch shell"
                yield word.line, what, f"Write it in single quotes: bash -c '${early[0]}; program'."


def _unquoted_shell(look: ScriptContext) -> Iterator[Fault]:
    for call in look.calls:
        texts = [word.text for word in call.program]
        if call.name not in SHELLS or len(texts) < 4 or texts[1] not in ("-c", "-lc"):
            continue
        if re.fullmatch(r"[\w./-]+", texts[2]) and not call.inner:
            what = f"bash -c takes one word: it runs {texts[2]} alone, and the rest are its arguments $0, $1, ..."
            yield call.program[2].line, what, f"Put the whole command in quotes: bash -c '{' '.join(texts[2:])}'."


def _module_path(look: ScriptContext) -> Iterator[Fault]:
    for call in look.calls:
        verb = next((word.plain for word in call.program[1:] if not word.plain.startswith("-")), "")
        if call.name == "module" and not call.container and re.match(r"[/~]|\$\{?HOME\b", verb):
            yield call.line, f"module has no command {verb}", f"Write module use {verb}."


def _path_replaced(look: ScriptContext) -> Iterator[Fault]:
    for call in look.calls:
        for variable in () if call.program else call.variables:
            if variable.name == "PATH" and not re.search(r"\$\{?PATH\b|/usr/bin|`|\$\(", variable.value):
                what = "PATH no longer contains the system directories: the commands below are not found"
                yield variable.line, what, f"export PATH={variable.value}:$PATH"


RULES: dict[str, Rule] = {
    "shell-in-container": _shell_in_container,
    "container-variable": _container_variable,
    "unquoted-shell": _unquoted_shell,
    "path-replaced": _path_replaced,
    "module-path": _module_path,
}
