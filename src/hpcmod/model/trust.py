"""Which images a site trusts, as data: rules by reference that say what must vouch for an image's bytes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hpcmod.errors import BadInputError, UntrustedError
from hpcmod.model.reference import ImageReference

NEEDS = ("digest", "checksum", "signature")
"""digest: the reference has one, or a checksum is given; checksum: the sha256 of the SIF is given; signature: the SIF
or the OCI image is signed by one of the keys."""


@dataclass(frozen=True)
class Rule:
    """What must vouch for images from some sources."""

    source: str
    """Pattern of references as ImageReference.canonical writes them; `*` stands for any characters, also for `/`."""
    needs: tuple[str, ...] = ()
    """Of NEEDS; empty: nothing."""
    keys: tuple[str, ...] = ()
    """Files of public keys, any of which may have signed; empty: the policy's."""

    def fits(self, subject: str) -> bool:
        """Say whether a reference is of these sources, with or without the port that it has anyway."""
        pattern = ".*".join(map(re.escape, _without_port(self.source).split("*")))
        return re.fullmatch(pattern, _without_port(subject), re.DOTALL) is not None


def _without_port(reference: str) -> str:
    """Leave out the port that https has anyway: HOST:443 is HOST, and no way around a rule for that."""
    return re.sub(r"^((?:docker|oras|https)://[^/]*):443(?=/|$)", r"\1", reference)


@dataclass(frozen=True)
class TrustPolicy:
    """What must vouch for an image before it is used."""

    needs: tuple[str, ...] = ()
    """For sources that no rule names."""
    keys: tuple[str, ...] = ()
    """Files of public keys: PEM (SIF and cosign) or PGP (SIF)."""
    rules: tuple[Rule, ...] = ()
    """The first that fits counts."""

    def find(self, subject: str) -> Rule | None:
        """Find the rule that names a reference, or the absolute path of a file."""
        return next((rule for rule in self.rules if rule.fits(subject)), None)

    def rule_for(self, subject: str) -> Rule:
        """Give the rule for a reference or a path, be it that for all others; its keys are those that count."""
        found = self.find(subject) or Rule("*", self.needs)
        return Rule(found.source, found.needs, found.keys or self.keys)


ANYTHING = TrustPolicy()
"""The policy of a site that has none."""


@dataclass(frozen=True)
class Vouched:
    """What vouches for an image that passed: each of the rule's needs, and by what it is met."""

    needs: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return "; ".join(f"{need}: {by}" for need, by in self.needs) or "nothing required"


def check_pinned(reference: ImageReference, rule: Rule, checksum: str | None) -> Vouched:
    """Check what can be checked before anything is fetched.

    Parameters
    ----------
    checksum
        The sha256 that the SIF must have; None if none is known.

    Raises
    ------
    UntrustedError
        If the rule wants a digest or a checksum, and there is none.
    """
    by = {"checksum": f"sha256:{checksum}" if checksum else "", "digest": reference.digest}
    by["digest"] = by["digest"] or by["checksum"]
    for need in rule.needs:
        if need in by and not by[need]:
            raise UntrustedError(
                f"{reference.canonical}: the site's rule for {rule.source} wants a {need}, and none is given",
                _CURES[need],
            )
    return Vouched(tuple((need, by[need]) for need in rule.needs if need in by))


_CURES = {
    "digest": "Name the image by digest: docker://HOST/NAME@sha256:... (`hpcmod fetch --dry-run` prints it).",
    "checksum": "Give the sha256 of the SIF: `checksums` of the easyconfig, or --checksum.",
}


def parse_rules(tables: Sequence[dict[str, object]]) -> tuple[Rule, ...]:
    """Parse the rules of a site profile, tables with `source`, `needs` and `keys`.

    Raises
    ------
    BadInputError
        If one is not of this form.
    """
    return tuple(_parse_rule(table) for table in tables)


def _parse_rule(table: dict[str, object]) -> Rule:
    unknown = set(table) - {"source", "needs", "keys"}
    source = table.get("source")
    if unknown or not isinstance(source, str) or not source or "needs" not in table:
        raise BadInputError(
            'each rule is a table like { source = "docker://HOST/*", needs = ["signature"], keys = [] }'
        )
    return Rule(source, parse_needs(table["needs"]), parse_keys(table.get("keys", [])))


def parse_needs(value: object) -> tuple[str, ...]:
    """Parse a list of NEEDS."""
    if not isinstance(value, list) or not all(one in NEEDS for one in value):
        raise BadInputError(f"must be a list of {', '.join(NEEDS)} (an empty one: nothing), found {value!r}")
    return tuple(need for need in NEEDS if need in value)


def parse_keys(value: object) -> tuple[str, ...]:
    """Parse a list of files of public keys."""
    if not isinstance(value, list) or not all(isinstance(one, str) and one.startswith("/") for one in value):
        raise BadInputError(f"must be a list of absolute paths of public keys, found {value!r}")
    return tuple(value)
