"""The images a site trusts: rules that say how images from a source must be verified."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from hpcmod.core.errors import BadInputError, UntrustedError
from hpcmod.core.values.subject import normalize

if TYPE_CHECKING:
    from hpcmod.core.values.reference import ImageReference

Resolve = Callable[[str], str]

NEEDS = ("digest", "checksum", "signature")
"""digest: the reference has one, or a checksum is given; checksum: the sha256 of the SIF is given; signature: the SIF
or the OCI image is signed with one of the keys."""


class TrustRule(NamedTuple):
    """How images from some sources must be verified."""

    source: str
    """Pattern of canonical references, addresses or absolute paths. `*` matches any characters, including `/`, but
    not in the host of an address."""
    needs: tuple[str, ...] = ()
    """Subset of NEEDS; empty: nothing."""
    keys: tuple[str, ...] = ()
    """Files of public keys, any of which may have signed; empty: the policy's keys."""
    identities: tuple[str, ...] = ()
    """Patterns of REGISTRY/REPOSITORY[:TAG] that a signature may contain instead of the image's own (for mirrors)."""

    def fits(self, subject: str, resolve: Resolve = str) -> bool:
        """Return whether the rule applies to a reference or a file's path.

        `subject`: Normalized with `normalize`.
        `resolve`: Resolves the links of a path: a rule for a directory also applies under its other names.
        """
        return re.fullmatch(_regex(normalize(_resolved(self.source, resolve))), subject, re.DOTALL) is not None


def _resolved(source: str, resolve: Resolve) -> str:
    """Resolve the links in a path pattern, up to the directory before its first `*`."""
    if not source.startswith("/"):
        return source
    fixed = source.partition("*")[0]
    directory = fixed if "*" not in source else fixed[: fixed.rindex("/")] or "/"
    return f"{resolve(directory).rstrip('/')}{source[len(directory.rstrip('/')) :]}"


def _regex(pattern: str) -> str:
    """Return the regular expression for a pattern: in the host of an address, `*` does not match a slash."""
    head = re.match(r"[^/]*://[^/]*(?=/)", pattern)
    end = head.end() if head else 0
    return stars(pattern[:end], "[^/]*") + stars(pattern[end:], ".*")


def stars(text: str, any_of: str) -> str:
    """Return the regular expression for a text in which `*` means `any_of`."""
    return any_of.join(map(re.escape, text.split("*")))


class TrustPolicy(NamedTuple):
    """How images must be verified before use."""

    needs: tuple[str, ...] = ()
    """Verification that an image needs if no rule matches its source: `digest`, `checksum`, `signature`; empty:
    none."""
    keys: tuple[str, ...] = ()
    """Files of public keys, PEM or PGP; a signed image must be signed with one of them."""
    rules: tuple[TrustRule, ...] = ()
    """`{ source = "docker://HOST/*", needs = ["signature"], keys = [] }`: the first rule that matches applies; `*`
    matches any characters, except `/` in a host. Optional `identities`: image names in the signatures of a mirror."""
    also: TrustPolicy | None = None
    """Another policy that must also hold: the system profile's, which other profiles can tighten but not relax."""

    def find(self, subject: str, resolve: Resolve = str) -> TrustRule | None:
        """Return the rule of this policy that matches a reference or a file; None if there is none.

        Raises UntrustedError if there are rules, and the meaning of the reference depends on the server.
        """
        if not self.rules:
            return None
        spelled = normalize(subject)
        return next((rule for rule in self.rules if rule.fits(spelled, resolve)), None)

    def rule_for(self, subject: str, resolve: Resolve = str) -> TrustRule:
        """Return the rule for a reference or a path, else the default rule, with its keys filled in."""
        rule = self.find(subject, resolve) or TrustRule("*", self.needs)
        own = TrustRule(rule.source, rule.needs, rule.keys or self.keys, rule.identities)
        return stricter(own, self.also.rule_for(subject, resolve)) if self.also else own


def stricter(own: TrustRule, site: TrustRule) -> TrustRule:
    """Return a rule with the needs of both; if the site's rule needs a signature, only the site's keys are accepted."""
    needs = tuple(need for need in NEEDS if need in (*own.needs, *site.needs))
    signed = site if "signature" in site.needs else own
    return TrustRule(site.source if site.needs else own.source, needs, signed.keys, signed.identities)


ANYTHING = TrustPolicy()
"""The policy of a site without rules."""


def check_pinned(reference: ImageReference, rule: TrustRule, checksum: str | None) -> tuple[str, ...]:
    """Check everything that can be checked before fetching; return how each need was met, as `need: by what`.

    `checksum`: Expected sha256 of the SIF; None if not known.

    Raises UntrustedError if the rule requires a digest or a checksum, and there is none.
    """
    by = {"checksum": f"sha256:{checksum}" if checksum else "", "digest": reference.digest}
    by["digest"] = by["digest"] or by["checksum"]
    for need in rule.needs:
        if need in by and not by[need]:
            raise UntrustedError(
                f"{reference.canonical}: the site's rule for {rule.source} requires a {need}, but none was given",
                _CURES[need],
            )
    return tuple(f"{need}: {by[need]}" for need in rule.needs if need in by)


_CURES = {
    "digest": "Refer to the image by digest: docker://HOST/NAME@sha256:... (`hpcmod fetch --dry-run` prints it).",
    "checksum": "Give the sha256 of the SIF, with `checksums` in the easyconfig or --checksum.",
}


def parse_rules(tables: Sequence[dict[str, object]]) -> tuple[TrustRule, ...]:
    """Parse the rules of a site profile: tables with `source`, `needs`, `keys` and `identities`.

    Raises BadInputError if a rule is invalid.
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
        raise BadInputError(f"{source!r}: '..' after '*' is ambiguous", "Write the path without '..'.")
    try:
        normalize(source)
    except UntrustedError as err:
        raise BadInputError(err.message, err.cure) from err
    identities = table.get("identities", [])
    if not isinstance(identities, list) or not all(isinstance(identity, str) and identity for identity in identities):
        raise BadInputError(f"identities must be a list like ['ghcr.io/org/*'], found {identities!r}")
    return TrustRule(source, parse_needs(table["needs"]), parse_keys(table.get("keys", [])), tuple(identities))


def parse_needs(value: object) -> tuple[str, ...]:
    """Parse a list of NEEDS."""
    if not isinstance(value, list) or not all(item in NEEDS for item in value):
        raise BadInputError(f"must be a list of {', '.join(NEEDS)} (may be empty), found {value!r}")
    return tuple(need for need in NEEDS if need in value)


def parse_keys(value: object) -> tuple[str, ...]:
    """Parse a list of files of public keys."""
    if not isinstance(value, list) or not all(isinstance(key, str) and key.startswith("/") for key in value):
        raise BadInputError(f"must be a list of absolute paths to public keys, found {value!r}")
    return tuple(value)
