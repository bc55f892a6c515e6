"""Versions that a recipe states more than once: in names, in descriptions, in the file name of the image."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hpcmod.check.easyconfigs.context import LintContext, fault
from hpcmod.model.easyconfigs.python_text import source_lines
from hpcmod.model.finding import WARN, Finding

_NUMBER = r"[vV]?(\d+(?:\.\d+)+(?:[+._-]?[A-Za-z0-9]+)*)"
_IN_NAMES = re.compile(r"([A-Za-z][A-Za-z_]*(?:\d[A-Za-z]+)?)[-_]v?(\d+(?:\.\d+)+(?:\.?[a-z]+\d*)?)(?=[-_]|$|\.sif)")
_IN_TEXT = re.compile(rf"\b([A-Za-z][\w+-]*)[ \t]+(?:version[ \t]+)?{_NUMBER}")
_TOKEN = re.compile(r"(?<![A-Za-z0-9])([A-Za-z]{2,})(\d+)(?![A-Za-z0-9.])")
"""A word with a whole number: SP6 for a service pack, py312."""

_VARIABLE = re.compile(r"local_(?:c_)?(\w+?)_version")
_NO_PRODUCT = re.compile(
    "versions?|releases?|than|before|after|since|with|and|from|to|for|until|in|of|on|or|is|as|the|a|an|by|at"
    "|section|chapter|singularity|dockerhash"
)
_OF_HOST_AFTER = re.compile(r"[\s-]+(?:kernel[\s-]+)?(?:drivers?|on the (?:host|system|node))\b", re.IGNORECASE)
_OF_HOST_BEFORE = re.compile(r"\b(?:host(?:'s)?|system(?:'s)?|driver(?: for)?)\s+$", re.IGNORECASE)
"""Versions of the machine that the container runs on."""

_SAME = {"torch": "pytorch", "flashattn": "flashattention"}


@dataclass(frozen=True)
class _Claim:
    product: str
    version: str
    place: str
    line: int


def find_drift(look: LintContext) -> Iterator[Finding]:
    """Yield products for which two places in the recipe state different versions."""
    first: dict[str, _Claim] = {}
    told: set[tuple[str, str]] = set()
    for claim in _claims(look):
        product = _product(claim.product)
        known = first.setdefault(product, claim)
        if not _agree(known.version, claim.version) and (product, claim.place) not in told:
            told.add((product, claim.place))
            what = f"{claim.product} is {claim.version} in {claim.place}, but {known.version} in {known.place}"
            cure = "Fix the wrong one; the module lists the image's packages automatically."
            yield fault(claim.line, "version-drift", WARN, what, cure)


def _claims(look: LintContext) -> Iterator[_Claim]:
    """Yield stated versions, first those that determine what is installed."""
    name, version = look.string("name"), look.string("version")
    if re.fullmatch(r"\d+(\.\d+)+", version):
        yield _Claim(name, version, "version", look.line("version"))
    suffix = look.string("versionsuffix")[:255]
    for product, stated in (*_IN_NAMES.findall(suffix), *_TOKEN.findall(suffix)):
        yield _Claim(product, stated, "versionsuffix", look.line("versionsuffix"))
    for image in look.images():
        file = image.rpartition("/")[2][:255]  # file names are not longer
        for product, stated in (*_IN_NAMES.findall(file), *_TOKEN.findall(file.removesuffix(".sif"))):
            yield _Claim(product, stated, f"the image {file[:80]}", look.line("sources ="))
    for variable, value in look.values.items():
        named = _VARIABLE.fullmatch(variable)
        if named and isinstance(value, str) and re.fullmatch(_NUMBER, value):
            yield _Claim(named[1], value, variable, look.line(f"{variable} "))
    yield from _stated(look.string("description"), "the description", look.line("description"))
    for number, line in enumerate(source_lines(look.text), 1):
        if line.startswith("#DOC"):
            yield from _stated(line[4:], "#DOC", number)


def _stated(text: str, place: str, line: int) -> Iterator[_Claim]:
    for match in _IN_TEXT.finditer(text):
        product, version = match[1], match[2]
        of_host = _OF_HOST_AFTER.match(text, match.end()) or _OF_HOST_BEFORE.search(
            text, max(0, match.start() - 40), match.start()
        )
        if not _NO_PRODUCT.fullmatch(product.lower()) and not of_host:
            yield _Claim(product, version, place, line)


def _product(name: str) -> str:
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    return _SAME.get(plain, plain)


def _agree(one: str, other: str) -> bool:
    """Return whether one version equals the other or its beginning.

    3.12 and 3.12.3 agree, so do 2.7.1 and 2.7.1+rocm6.2.4, and 312 and 3.12.3.
    """
    first, second = (re.split(r"[.+_-]", text.lower().lstrip("v")) for text in (one, other))
    shorter = min(len(first), len(second))
    if shorter == 1:
        whole, parts = sorted(("".join(first), "".join(second)), key=len)
        return parts.startswith(whole)
    return first[:shorter] == second[:shorter]
