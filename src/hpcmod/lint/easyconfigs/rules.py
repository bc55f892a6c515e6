"""Rules for easyconfigs of containers: names, checksums, tags, binds, paths and ports."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator

from hpcmod.core.errors import BadInputError
from hpcmod.core.values.finding import FAIL, WARN, Finding
from hpcmod.core.values.reference import ImageReference
from hpcmod.lint.easyconfigs.context import LintContext, fault
from hpcmod.machine.values.bind import Bind
from hpcmod.modules.values.parameters import MODULE_CLASSES, NEAR_PARAMETERS, PARAMETERS
from hpcmod.modules.values.python_text import find_unused_assignments, source_lines
from hpcmod.modules.values.spec import parse_commands, parse_environment
from hpcmod.modules.values.written_binds import binds_of

_MODULE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_RUNTIMES = ("SINGULARITY", "SINGULARITYENV", "APPTAINER", "APPTAINERENV")
_RUNTIME_VARIABLE = re.compile(r"\b([A-Z]{7,16})_((?:BIND|BINDPATH|NV|ROCM|SHELL|CACHEDIR|TMPDIR|PREPEND_PATH|PWD))\b")
_OF_A_MODULE = re.compile(r"\$\{?((SIF|RUNSCRIPTS)([A-Z][A-Z0-9]+))\b")
_SUM = re.compile(r"[0-9a-f]{64}")


def _needs_names(look: LintContext) -> Iterator[Finding]:
    for name in ("easyblock", "name", "version"):
        if name in look.unknown:
            what = f"{name} cannot be determined without running it, so little of it is checked: {look.unknown[name]}"
            yield fault(look.line(name), "unseen", WARN, what, "Write it as a plain string.")
        elif not look.string(name):
            yield fault(
                look.line(name), "does-not-load", FAIL, f"{name} is not set, or not a string", "Write it as a string."
            )
    for name in ("name", "version"):
        text = look.string(name)
        if text and not _MODULE_NAME.fullmatch(text):
            what = f"the {name} {text[:80]!r} results in a module that cannot be loaded"
            yield fault(look.line(text), "does-not-load", FAIL, what, "Use letters, digits, _ . + and - only.")


def _file_name(look: LintContext) -> Iterator[Finding]:
    name, version = look.string("name"), look.string("version")
    if not (name and version) or "versionsuffix" in look.unknown:
        return
    expected = f"{name}-{version}{look.string('versionsuffix')}.eb"
    if look.path.name != expected:
        what = f"the file is called {look.path.name}, but installs {name}/{version}{look.string('versionsuffix')}"
        yield fault(
            look.assigned("name"), "file-name", FAIL, what, f"Rename it to {expected}, or correct its name and version."
        )


def _images(look: LintContext) -> Iterator[Finding]:
    ready = look.string("easyblock") == "ContainerModule" and "sources" not in look.unknown
    if ready and len(look.images()) != 1:
        what = f"names {len(look.images())} images"
        yield fault(look.line("sources"), "does-not-load", FAIL, what, "Use one, in sources or image.")
    for text in (*look.images(), *look.strings("source_urls")):
        try:
            reference = ImageReference.parse(text)
        except BadInputError as err:
            if look.is_ours:
                yield fault(look.line(text), "does-not-load", FAIL, err.message, err.cure)
            continue
        if reference.registry and reference.tag in ("latest", "main", "nightly") and not reference.pinned:
            what = f"{reference.canonical}: the tag {reference.tag} can mean another image tomorrow"
            yield fault(look.line(text), "moving-tag", FAIL, what, "Add the digest: NAME:TAG@sha256:...")


def _checksums(look: LintContext) -> Iterator[Finding]:
    if not look.images() or "checksums" in look.unknown or _pinned(look):
        return
    given = look.values.get("checksums")
    if isinstance(given, (list, tuple)) and given and all(isinstance(one, str) for one in given):
        return
    line = look.line(next((name for name in ("checksums =", "image =") if name in look.text), "sources"))
    above = source_lines(look.text)[line - 2] if line > 1 else ""
    told = isinstance(given, (list, tuple)) and bool(given) and above.startswith("#")
    what = f"no checksum identifies the image {look.images()[0][:80]}"
    cure = "Add the sha256 of the SIF (`eb FILE --inject-checksums --force`), or the digest to the reference."
    yield fault(line, "no-checksum", WARN if told else FAIL, what, cure)


def _pinned(look: LintContext) -> bool:
    try:
        return all(ImageReference.parse(text).pinned for text in look.images())
    except BadInputError:
        return False


def _dead_binds(look: LintContext) -> Iterator[Finding]:
    theirs = binds_of(look.table("modextravars"), look.string("modluafooter"))
    sources = [bind.partition(":")[0] for bind in (*look.strings("bind_paths"), *theirs)]
    absent = [one for one in sources if re.match(r"/[^%$*]*$", one) and not look.exists(one)]
    if absent:
        what = f"binds that do not exist on this machine: {', '.join(absent)}: containers will not start"
        cure = "Leave it to the site profile, where a bind may be optional."
        yield fault(look.line(absent[0]), "dead-bind", WARN, what, cure)


def _empty_paths(look: LintContext) -> Iterator[Finding]:
    for name, value in look.table("modextravars").items():
        if re.search(r"PATH$", name) and "BIND" not in name and (value.startswith(":") or re.search(r"::|:$", value)):
            what = f"{name} has an empty element, which means the current directory"
            yield fault(look.line(name), "empty-path", FAIL, what, "Remove one of the colons.")


def _commands(look: LintContext) -> Iterator[Finding]:
    for name, parse in (("wrapped_commands", parse_commands), ("environment", parse_environment)):
        try:
            parse(look.values.get(name, {}))
        except BadInputError as err:
            yield fault(look.line(name), "does-not-load", FAIL, err.message, err.cure)
    for text in look.strings("bind_paths"):
        try:
            Bind.parse(text)
        except BadInputError as err:
            yield fault(look.line("bind_paths"), "does-not-load", FAIL, f"bind_paths: {err.message}", err.cure)


def _sanity_checks(look: LintContext) -> Iterator[Finding]:
    given = look.values.get("sanity_check_paths")
    if isinstance(given, dict) and given and not look.is_ours and not any(given.values()):
        what = "sanity_check_paths names neither files nor directories: EasyBuild refuses it"
        cure = "Name a file of the installation, or remove it."
        yield fault(look.assigned("sanity_check_paths"), "empty-check", FAIL, what, cure)


def _misspelt_variables(look: LintContext) -> Iterator[Finding]:
    for number, line in enumerate(source_lines(look.text), 1):
        for match in _RUNTIME_VARIABLE.finditer(line):
            known = difflib.get_close_matches(match[1], _RUNTIMES, n=1, cutoff=0.8)
            if known and match[1] not in _RUNTIMES:
                what = f"{match[0]} is no variable of the runtime"
                yield fault(number, "misspelt-variable", WARN, what, f"Write {known[0]}_{match[2]}.")


def _other_module(look: LintContext) -> Iterator[Finding]:
    own = re.sub(r"[^A-Z0-9]", "", look.string("name").upper().replace("-", "MIN"))
    if not own or "modextravars" in look.unknown:
        return
    given = {*look.table("modextravars")}
    told = set[str]()
    for number, line in enumerate(source_lines(look.text), 1):
        for match in _OF_A_MODULE.finditer(line):
            name = match[1]
            if match[3] == own or name in given or name in told:
                continue
            told.add(name)
            what = f"${name} belongs to another module, and this one does not set it"
            yield fault(number, "other-module", WARN, what, f"Use a variable of this module: {match[2]}{own}.")


def _assigned_twice(look: LintContext) -> Iterator[Finding]:
    for name, line, first in find_unused_assignments(look.text):
        what = f"{name} is assigned again, and its value of line {first} is never used"
        yield fault(line, "assigned-twice", WARN, what, "Remove one of the two.")


def _checked_sums(look: LintContext) -> Iterator[Finding]:
    for one in look.strings("checksums"):
        if not _SUM.fullmatch(one):
            yield fault(
                look.line(one),
                "no-checksum",
                FAIL,
                f"{one[:80]!r} is not a valid sha256",
                "A sha256 has 64 hex digits.",
            )


def _parameters(look: LintContext) -> Iterator[Finding]:
    for name in look.values if look.is_ours else ():
        near = difflib.get_close_matches(name, PARAMETERS, n=1, cutoff=0.85)
        if near and name not in (*PARAMETERS, *NEAR_PARAMETERS) and not name.startswith(("local_", "_")):
            what = f"{name} is not a parameter: EasyBuild refuses what looks like a misspelt one"
            yield fault(look.assigned(name), "unknown-parameter", FAIL, what, f"Write {near[0]}.")
    given = look.string("moduleclass")
    if given and given not in MODULE_CLASSES:
        what = f"{given!r} is not a module class of EasyBuild: only a site that defines it can install this"
        yield fault(
            look.assigned("moduleclass"), "module-class", WARN, what, "Use one of `eb --show-default-moduleclasses`."
        )


RULES: tuple[Callable[[LintContext], Iterator[Finding]], ...] = (
    *(_needs_names, _file_name, _images, _checksums, _checked_sums, _dead_binds, _empty_paths),
    *(_commands, _sanity_checks, _misspelt_variables, _other_module, _assigned_twice),
    _parameters,
)
"""Every rule for easyconfigs."""
