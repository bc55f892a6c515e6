"""Which images a site trusts, as data: rules, by reference, for how an image's bytes must be verified."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hpcmod.errors import BadInputError, UntrustedError
from hpcmod.model.reference import ImageReference
from hpcmod.model.subject import normalize

Resolve = Callable[[str], str]

NEEDS = ("digest", "checksum", "signature")
"""digest: the reference has one, or a checksum is given; checksum: the sha256 of the SIF is given; signature: the SIF
or the OCI image is signed by one of the keys."""


@dataclass(frozen=True)
class TrustRule:
    """How images from some sources must be verified."""

    source: str
    """Pattern of canonical references, addresses or absolute paths. `*` stands for any characters, also for `/`, but
    not in the host of an address."""
    needs: tuple[str, ...] = ()
    """Of NEEDS; empty: nothing."""
    keys: tuple[str, ...] = ()
    """Files of public keys, any of which may have signed; empty: the policy's."""
    identities: tuple[str, ...] = ()
    """Patterns of REGISTRY/REPOSITORY[:TAG] that a signature may name instead of the image's own: those of a mirror."""

    def fits(self, subject: str, resolve: Resolve = str) -> bool:
        """Return whether a reference, or the path of a file, is one of these sources.

        Parameters
        ----------
        subject
            As `normalize` returns it.
        resolve
            Follows the links of a path: a rule for a directory also holds under the directory's other names.
        """
        return re.fullmatch(_regex(normalize(_resolved(self.source, resolve))), subject, re.DOTALL) is not None


def _resolved(source: str, resolve: Resolve) -> str:
    """Follow the links of a pattern of paths, up to the directory before its first `*`."""
    if not source.startswith("/"):
        return source
    fixed = source.partition("*")[0]
    directory = fixed if "*" not in source else fixed[: fixed.rindex("/")] or "/"
    return f"{resolve(directory).rstrip('/')}{source[len(directory.rstrip('/')) :]}"


def check_identity(rule: TrustRule, reference: ImageReference, signed: str) -> str:
    """Return why a signature that names an image is not one for a reference; empty if it is.

    Parameters
    ----------
    signed
        REGISTRY/REPOSITORY[:TAG][@DIGEST], as the signer wrote it.
    """
    bare = signed.partition("@")[0]
    if any(re.fullmatch(_stars(one, ".*"), bare, re.DOTALL) for one in rule.identities):
        return ""
    try:
        named = ImageReference.parse(f"docker://{signed}")
    except BadInputError:
        return f"it names {signed!r}"
    names = {normalize(f"docker://{one.registry}/{one.repository}") for one in (named, reference)}
    same_tag = ":" not in bare.rpartition("/")[2] or reference.tag in ("", named.tag)
    return "" if len(names) == 1 and same_tag else f"it names {signed}"


def _regex(pattern: str) -> str:
    """Return the regular expression for a pattern: `*` before the path of an address ends at its first slash."""
    head = re.match(r"[^/]*://[^/]*(?=/)", pattern)
    end = head.end() if head else 0
    return _stars(pattern[:end], "[^/]*") + _stars(pattern[end:], ".*")


def _stars(text: str, any_of: str) -> str:
    return any_of.join(map(re.escape, text.split("*")))


@dataclass(frozen=True)
class TrustPolicy:
    """How an image must be verified before it is used."""

    needs: tuple[str, ...] = ()
    """For sources that no rule names."""
    keys: tuple[str, ...] = ()
    """Files of public keys: PEM (SIF and cosign) or PGP (SIF)."""
    rules: tuple[TrustRule, ...] = ()
    """The first that fits counts."""
    also: TrustPolicy | None = None
    """A policy that holds as well: the system profile's, which another profile can tighten but not relax."""

    def find(self, subject: str, resolve: Resolve = str) -> TrustRule | None:
        """Return the rule of this policy that names a reference or a file; None if none does.

        Raises
        ------
        UntrustedError
            If there are rules, and the meaning of the reference depends on the server.
        """
        if not self.rules:
            return None
        spelled = normalize(subject)
        return next((rule for rule in self.rules if rule.fits(spelled, resolve)), None)

    def rule_for(self, subject: str, resolve: Resolve = str) -> TrustRule:
        """Return the rule for a reference or a path, the default one if none names it, with the keys that count."""
        found = self.find(subject, resolve) or TrustRule("*", self.needs)
        own = TrustRule(found.source, found.needs, found.keys or self.keys, found.identities)
        return stricter(own, self.also.rule_for(subject, resolve)) if self.also else own


def stricter(own: TrustRule, site: TrustRule) -> TrustRule:
    """Return a rule that needs what both need; where the site's rule needs a signature, only the site's keys count."""
    needs = tuple(need for need in NEEDS if need in (*own.needs, *site.needs))
    signed = site if "signature" in site.needs else own
    return TrustRule(site.source if site.needs else own.source, needs, signed.keys, signed.identities)


ANYTHING = TrustPolicy()
"""The policy of a site that has none."""


@dataclass(frozen=True)
class TrustEvidence:
    """How an image satisfied its rule: each of the rule's needs, and what met it."""

    needs: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return "; ".join(f"{need}: {by}" for need, by in self.needs) or "nothing required"


def check_pinned(reference: ImageReference, rule: TrustRule, checksum: str | None) -> TrustEvidence:
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
    return TrustEvidence(tuple((need, by[need]) for need in rule.needs if need in by))


_CURES = {
    "digest": "Name the image by digest: docker://HOST/NAME@sha256:... (`hpcmod fetch --dry-run` prints it).",
    "checksum": "Give the sha256 of the SIF: `checksums` of the easyconfig, or --checksum.",
}


def parse_rules(tables: Sequence[dict[str, object]]) -> tuple[TrustRule, ...]:
    """Parse the rules of a site profile, tables with `source`, `needs`, `keys` and `identities`.

    Raises
    ------
    BadInputError
        If one is not of this form.
    """
    return tuple(_parse_rule(table) for table in tables)


def _parse_rule(table: dict[str, object]) -> TrustRule:
    unknown = set(table) - {"source", "needs", "keys", "identities"}
    source = table.get("source")
    if unknown or not isinstance(source, str) or not source or "needs" not in table:
        raise BadInputError(
            'each rule is a table like { source = "docker://HOST/*", needs = ["signature"], keys = [] }'
        )
    if "/.." in source.partition("*")[2]:
        raise BadInputError(f"{source!r}: '..' after '*' has no fixed meaning", "Write the path without '..'.")
    try:
        normalize(source)
    except UntrustedError as err:
        raise BadInputError(err.message, err.cure) from err
    identities = table.get("identities", [])
    if not isinstance(identities, list) or not all(isinstance(one, str) and one for one in identities):
        raise BadInputError(f"identities must be a list like ['ghcr.io/org/*'], found {identities!r}")
    return TrustRule(source, parse_needs(table["needs"]), parse_keys(table.get("keys", [])), tuple(identities))


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
