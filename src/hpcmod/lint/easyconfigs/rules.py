"""Rules for easyconfigs of containers: names, checksums, tags, binds, paths and ports."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from hpcmod.core.errors import BadInputError
from hpcmod.core.values.finding import FAIL, WARN, Finding
from hpcmod.core.values.reference import ImageReference
from hpcmod.lint.easyconfigs.context import LintContext, fault
from hpcmod.machine.values.bind import Bind
from hpcmod.modules.values.parameters import MODULE_CLASSES, NEAR_PARAMETERS, PARAMETERS
from hpcmod.modules.values.python_text import source_lines
from hpcmod.modules.values.spec import parse_commands, parse_environment
from hpcmod.modules.values.written_binds import binds_of

_MODULE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_RUNTIMES = ("SINGULARITY", "SINGULARITYENV", "APPTAINER", "APPTAINERENV")
_RUNTIME_VARIABLE = re.compile(r"\b([A-Z]{7,16})_((?:BIND|BINDPATH|NV|ROCM|SHELL|CACHEDIR|TMPDIR|PREPEND_PATH|PWD))\b")
_OF_A_MODULE = re.compile(r"\$\{?((SIF|RUNSCRIPTS)([A-Z][A-Z0-9]+))\b")


def rule_needs_names(recipe: LintContext) -> Iterator[Finding]:
    for name in ("easyblock", "name", "version"):
        if name in recipe.unknown:
            problem = f"{name} is known only if the file is run, so little is checked: {recipe.unknown[name]}"
            yield fault(recipe.line(name), "unseen", WARN, problem, "Write it as a plain string.")
        elif not recipe.string(name):
            problem = f"{name} is not set, or not a string"
            yield fault(recipe.line(name), "does-not-load", FAIL, problem, "Write it as a string.")
    for name in ("name", "version"):
        text = recipe.string(name)
        if text and not _MODULE_NAME.fullmatch(text):
            problem = f"the {name} {text[:80]!r} results in a module that cannot be loaded"
            yield fault(recipe.line(text), "does-not-load", FAIL, problem, "Use letters, digits, _ . + and - only.")


def rule_file_name(recipe: LintContext) -> Iterator[Finding]:
    name, version, suffix = (recipe.string(key) for key in ("name", "version", "versionsuffix"))
    if not (name and version) or "versionsuffix" in recipe.unknown:
        return
    expected = f"{name}-{version}{suffix}.eb"
    if recipe.path.name != expected:
        problem = f"the file is called {recipe.path.name}, but installs {name}/{version}{suffix}"
        cure = f"Rename it to {expected}, or correct its name and version."
        yield fault(recipe.assigned("name"), "file-name", FAIL, problem, cure)


def rule_images(recipe: LintContext) -> Iterator[Finding]:
    ready = recipe.string("easyblock") == "ContainerModule" and "sources" not in recipe.unknown
    if ready and len(recipe.images()) != 1:
        problem = f"names {len(recipe.images())} images"
        yield fault(recipe.line("sources"), "does-not-load", FAIL, problem, "Use one, in sources or image.")
    for text in (*recipe.images(), *recipe.strings("source_urls")):
        try:
            reference = ImageReference.parse(text)
        except BadInputError as err:
            if recipe.is_ours:
                yield fault(recipe.line(text), "does-not-load", FAIL, err.message, err.cure)
            continue
        if reference.registry and reference.tag in ("latest", "main", "nightly") and not reference.pinned:
            problem = f"{reference.canonical}: the tag {reference.tag} can mean another image tomorrow"
            yield fault(recipe.line(text), "moving-tag", FAIL, problem, "Add the digest: NAME:TAG@sha256:...")


def rule_checksums(recipe: LintContext) -> Iterator[Finding]:
    pinned = all(re.search("@sha256:[0-9a-f]{64}$", text) for text in recipe.images())
    if "checksums" in recipe.unknown or pinned:
        return
    given = recipe.values.get("checksums")
    if isinstance(given, (list, tuple)) and given and all(isinstance(checksum, str) for checksum in given):
        return
    line = recipe.line(next((name for name in ("checksums =", "image =") if name in recipe.text), "sources"))
    above = source_lines(recipe.text)[line - 2] if line > 1 else ""
    told = isinstance(given, (list, tuple)) and bool(given) and above.startswith("#")
    problem = f"no checksum identifies the image {recipe.images()[0][:80]}"
    cure = "Add the sha256 of the SIF (`eb FILE --inject-checksums --force`), or the digest to the reference."
    yield fault(line, "no-checksum", WARN if told else FAIL, problem, cure)


def rule_dead_binds(recipe: LintContext) -> Iterator[Finding]:
    theirs = binds_of(recipe.table("modextravars"), recipe.string("modluafooter"))
    sources = [bind.partition(":")[0] for bind in (*recipe.strings("bind_paths"), *theirs)]
    absent = [path for path in sources if re.match(r"/[^%$*]*$", path) and not recipe.exists(path)]
    if absent:
        problem = f"binds that do not exist on this machine: {', '.join(absent)}: containers will not start"
        cure = "Leave it to the site profile, where a bind may be optional."
        yield fault(recipe.line(absent[0]), "dead-bind", WARN, problem, cure)


def rule_empty_paths(recipe: LintContext) -> Iterator[Finding]:
    for name, value in recipe.table("modextravars").items():
        if re.search(r"PATH$", name) and "BIND" not in name and (value.startswith(":") or re.search(r"::|:$", value)):
            problem = f"{name} has an empty element, which means the current directory"
            yield fault(recipe.line(name), "empty-path", FAIL, problem, "Remove one of the colons.")


def rule_commands(recipe: LintContext) -> Iterator[Finding]:
    for name, parse in (("wrapped_commands", parse_commands), ("environment", parse_environment)):
        try:
            parse(recipe.values.get(name, {}))
        except BadInputError as err:
            yield fault(recipe.line(name), "does-not-load", FAIL, err.message, err.cure)
    for text in recipe.strings("bind_paths"):
        try:
            Bind.parse(text)
        except BadInputError as err:
            yield fault(recipe.line("bind_paths"), "does-not-load", FAIL, f"bind_paths: {err.message}", err.cure)


def rule_misspelt_variables(recipe: LintContext) -> Iterator[Finding]:
    for number, line in enumerate(source_lines(recipe.text), 1):
        for match in _RUNTIME_VARIABLE.finditer(line):
            known = difflib.get_close_matches(match[1], _RUNTIMES, n=1, cutoff=0.8)
            if known and match[1] not in _RUNTIMES:
                problem = f"{match[0]} is not a variable of the runtime"
                yield fault(number, "misspelt-variable", WARN, problem, f"Write {known[0]}_{match[2]}.")


def rule_variables_of_others(recipe: LintContext) -> Iterator[Finding]:
    own = re.sub(r"[^A-Z0-9]", "", recipe.string("name").upper().replace("-", "MIN"))
    if not own or "modextravars" in recipe.unknown:
        return
    given = {*recipe.table("modextravars")}
    told = set[str]()
    for number, line in enumerate(source_lines(recipe.text), 1):
        for match in _OF_A_MODULE.finditer(line):
            name = match[1]
            if match[3] == own or name in given or name in told:
                continue
            told.add(name)
            problem = f"${name} belongs to another module, and this one does not set it"
            yield fault(number, "other-module", WARN, problem, f"Use a variable of this module: {match[2]}{own}.")


def rule_parameters(recipe: LintContext) -> Iterator[Finding]:
    for name in recipe.values if recipe.is_ours else ():
        near = difflib.get_close_matches(name, PARAMETERS, n=1, cutoff=0.85)
        if near and name not in (*PARAMETERS, *NEAR_PARAMETERS) and not name.startswith(("local_", "_")):
            problem = f"{name} is not a parameter: EasyBuild refuses what looks like a misspelt one"
            yield fault(recipe.assigned(name), "unknown-parameter", FAIL, problem, f"Write {near[0]}.")
    given = recipe.string("moduleclass")
    if given and given not in MODULE_CLASSES:
        problem = f"{given!r} is not a module class of EasyBuild: only a site that defines it can install this"
        cure = "Use one of `eb --show-default-moduleclasses`."
        yield fault(recipe.assigned("moduleclass"), "module-class", WARN, problem, cure)
