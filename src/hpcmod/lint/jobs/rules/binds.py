"""Rules for batch scripts: how the container is started, and what is bound into it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hpcmod.lint.jobs.reading.calls import RUNTIMES, Call
from hpcmod.lint.jobs.reading.look import TOOLS, Fault, Rule, ScriptContext
from hpcmod.lint.jobs.rules.starts import call_of

_BINDS = ("SINGULARITY_BIND", "SINGULARITY_BINDPATH", "APPTAINER_BIND", "APPTAINER_BINDPATH")


def _bind_parts(look: ScriptContext, call: Call) -> Iterator[tuple[str, int]]:
    """Yield the bind paths of a container: text and line."""
    for option in call.container.options if call.container else ():
        if option.name == "bind":
            yield from ((part, option.line) for part in look.expand(option.value).split(","))
    if not call.container:
        for variable in call.variables:
            if variable.name in _BINDS:
                yield from ((part, variable.line) for part in look.expand(variable.value).split(","))


def _bind_target(look: ScriptContext) -> Iterator[Fault]:
    for call in look.calls:
        for part, line in _bind_parts(look, call):
            pieces = part.split(":")
            if len(pieces) == 2 and pieces[1] in ("ro", "rw"):
                what = f"{part}: {pieces[1]} is not a path in the container, which must follow the first colon"
                yield line, what, f"Write {pieces[0]}:{pieces[0]}:{pieces[1]}."
            elif len(pieces) > 1 and pieces[1] and not re.match(r"[/$]", pieces[1]):
                what = f"{part}: the path in the container must begin with a slash"
                yield line, what, f"Write {pieces[0]}:/{pieces[1].removeprefix('./')}."


def _tilde(look: ScriptContext) -> Iterator[Fault]:
    for call in look.calls:
        for word in () if call.inner else call.words:
            if not call.container and not re.match(r"[\"']~/", word.text):
                continue
            if re.match(r"--[\w-]+=[\"']?~/|[\"']~/|[^~=\s\"']+:~/", word.text) and _names_a_path(call, word.text):
                what = "bash expands ~ only at the beginning of a word"
                yield word.line, what, f"Write {word.text.replace('~', '$HOME', 1)}."


def _names_a_path(call: Call, text: str) -> bool:
    return call.container is not None or call.name in TOOLS


def _options_behind_image(look: ScriptContext) -> Iterator[Fault]:
    for call in look.calls:
        first = call.program[0].plain if call.program and call.container else ""
        runs = call.container and call.container.verb in ("exec", "shell") and not call.inner
        if runs and call.container and re.match(r"--?[A-Za-z]", first):
            what = f"the program follows the image, so {first} would be run as a program"
            cure = f"Write {call_of(call)} {call.container.verb} {first} ... before the image."
            yield call.program[0].line, what, cure
        elif call.container and not call.inner and call.container.verb in RUNTIMES:
            yield call.container.line, f"{call.container.verb} starts {call.container.verb}", "Remove one of the two."


def _purged(look: ScriptContext) -> Iterator[Fault]:
    for call in look.calls:
        if call.name not in ("module", "ml") or call.inner:
            continue
        verbs = [word.plain for word in call.program[1:] if not word.plain.startswith("-")]
        gone = verbs[:1] in (["purge"], ["reset"])
        before = [name for line, name in look.loads if line < call.line]
        after = [name for line, name in look.loads if line >= call.line]
        used = [one for one in look.calls if one.line > call.line and one.container]
        if gone and before and not after and used:
            what = f"module {verbs[0]} unloads {', '.join(before)}, which the lines below need"
            yield call.line, what, "Move it above module load."


def _runtime_not_loaded(look: ScriptContext) -> Iterator[Fault]:
    needed = [found[1] for line in look.site.job.command if (found := re.match(r"module load (\w+)", line))]
    for call in look.calls:
        if call.container and needed and not look.loads and not look.sources:
            what = f"{needed[0]} comes from a module on {look.site.name}, which is not loaded"
            yield call.line, what, f"Add module load {needed[0]} above."
            return


def _unset_image(look: ScriptContext) -> Iterator[Fault]:
    for call in look.calls:
        image = call.container.image if call.container else None
        found = re.fullmatch(r"\"?\$\{?(\w+)\}?\"?", image.text) if image else None
        if not image or not found or found[1] in look.names or look.sources or found[1].startswith("SIF") or call.inner:
            continue
        if not look.loads and not found[1].isdecimal():
            what = f"${found[1]} is not set in this script, so the image is missing"
            yield image.line, what, f"Add {found[1]}=/path/to/image.sif above."


RULES: dict[str, Rule] = {
    "bind-target": _bind_target,
    "tilde": _tilde,
    "options-behind-image": _options_behind_image,
    "purged": _purged,
    "runtime-not-loaded": _runtime_not_loaded,
    "unset-image": _unset_image,
}
