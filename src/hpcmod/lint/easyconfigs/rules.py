"""Rules for easyconfigs of containers: names, checksums, tags, binds, paths and ports; and what they read."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpcmod.core.errors import BadInputError
from hpcmod.core.values.finding import FAIL, WARN, Finding
from hpcmod.core.values.reference import ImageReference
from hpcmod.machine.values.bind import Bind
from hpcmod.modules.values.easyconfig_text import CONSTANTS, fill_values, templates_of
from hpcmod.modules.values.parameters import MODULE_CLASSES, NEAR_PARAMETERS, PARAMETERS
from hpcmod.modules.values.python_text import source_lines
from hpcmod.modules.values.spec import parse_commands, parse_environment
from hpcmod.modules.values.static_values import read_static_values
from hpcmod.modules.values.written_binds import binds_of

_MODULE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_RUNTIMES = ("SINGULARITY", "SINGULARITYENV", "APPTAINER", "APPTAINERENV")
_RUNTIME_VARIABLE = re.compile(r"\b([A-Z]{7,16})_((?:BIND|BINDPATH|NV|ROCM|SHELL|CACHEDIR|TMPDIR|PREPEND_PATH|PWD))\b")
_OF_A_MODULE = re.compile(r"\$\{?((SIF|RUNSCRIPTS)([A-Z][A-Z0-9]+))\b")


def fault(line: int, rule: str, level: str, found: str, cure: str) -> Finding:
    """Return a finding about a line; a number below 1 is taken as 1."""
    return Finding(level, rule, found, cure, line=max(1, line))


@dataclass(frozen=True)
class LintContext:
    """An easyconfig, read once for all rules."""

    text: str
    path: Path
    values: Mapping[str, Any]
    """Its variables, as far as they are known without running it, with known templates filled in."""
    unknown: Mapping[str, str]
    exists: Callable[[str], bool]
    """Returns whether a path exists on this machine."""

    @classmethod
    def at(cls, text: str, path: Path, exists: Callable[[str], bool]) -> LintContext:
        """Read an easyconfig.

        Raises BadInputError if it is not Python.
        """
        read = read_static_values(text, str(path), constants=CONSTANTS)
        templates = templates_of(read.known)
        values = {name: fill_values(value, templates) for name, value in read.known.items()}
        return cls(text, path, values, read.unknown, exists)

    @property
    def is_ours(self) -> bool:
        """Return whether one of hpcmod's easyblocks installs it."""
        return str(self.values.get("easyblock", "")).startswith("Container")

    def string(self, name: str) -> str:
        """Return the value of a string variable; empty if it is not set."""
        value = self.values.get(name)
        return value if isinstance(value, str) else ""

    def strings(self, name: str) -> tuple[str, ...]:
        """Return the strings of a list variable."""
        value = self.values.get(name)
        return tuple(text for text in value if isinstance(text, str)) if isinstance(value, (list, tuple)) else ()

    def table(self, name: str) -> Mapping[str, str]:
        """Return the strings of a dictionary variable."""
        value = self.values.get(name)
        items = value.items() if isinstance(value, dict) else ()
        return {key: text for key, text in items if isinstance(key, str) and isinstance(text, str)}

    def images(self) -> tuple[str, ...]:
        """Return how it names its image: a reference, or file names."""
        if self.string("image"):
            return (self.string("image"),)
        sources = self.values.get("sources")
        listed = sources if isinstance(sources, (list, tuple)) else ()
        names = (source.get("filename") if isinstance(source, dict) else source for source in listed)
        return tuple(name for name in names if isinstance(name, str))

    def assigned(self, name: str) -> int:
        """Return the line that assigns a variable."""
        lines = enumerate(source_lines(self.text), 1)
        return next((number for number, line in lines if re.match(rf"{name}\s*=[^=]", line)), 1)

    def line(self, words: str) -> int:
        """Return the number of the first line that contains the given words; 1 if none does."""
        return next((number for number, line in enumerate(source_lines(self.text), 1) if words in line), 1)


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
