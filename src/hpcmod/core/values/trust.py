"""The images a site trusts: rules that say how images from a source must be verified."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from hpcmod.core.errors import BadInputError, UntrustedError
from hpcmod.core.values.subject import normalize

if TYPE_CHECKING:
    from hpcmod.core.values.reference import ImageReference

Resolve = Callable[[str], str]

NEEDS = ("digest", "checksum", "signature")
"""digest: the reference has one, or a checksum is given; checksum: the sha256 of the SIF is given; signature: the SIF
or the OCI image is signed with one of the keys, or by one of the signers. Others are `attestation:TYPE`: a statement of
this in-toto predicate type about the OCI image is signed in the same way."""

ATTESTATION = "attestation:"
_PREDICATES = {
    "custom": "https://cosign.sigstore.dev/attestation/v1",
    "cyclonedx": "https://cyclonedx.org/bom",
    "link": "https://in-toto.io/Link/v1",
    "openvex": "https://openvex.dev/ns",
    "slsaprovenance": "https://slsa.dev/provenance/v0.2",
    "slsaprovenance02": "https://slsa.dev/provenance/v0.2",
    "slsaprovenance1": "https://slsa.dev/provenance/v1",
    "spdx": "https://spdx.dev/Document",
    "spdxjson": "https://spdx.dev/Document",
    "vuln": "https://cosign.sigstore.dev/attestation/vuln/v1",
}
"""Types of attestations by the names that `cosign attest --type` has for them."""

NAMED_NEEDS = (*NEEDS, *(f"{ATTESTATION}{name}" for name in _PREDICATES))
OTHER_NEED = rf"{ATTESTATION}https?://\S+"
"""Attestations of types without such a name, as a regular expression."""


class Signer(NamedTuple):
    """Who may sign without a key, by the certificate of a signature."""

    identity: str
    """Pattern of an email address, or of the address of a workflow; `*` matches any characters."""
    issuer: str
    """Address of the OpenID Connect provider that has confirmed the identity."""

    def recorded(self, root: str) -> str:
        """Return how a signature by this signer, under a file of roots of trust, is recorded."""
        return f"{self.identity} of {self.issuer} ({root})"


class TrustRule(NamedTuple):
    """How images from some sources must be verified."""

    source: str
    """Pattern of canonical references, addresses or absolute paths. `*` matches any characters, including `/`, but
    not in the host of an address."""
    needs: tuple[str, ...] = ()
    """Some of NEEDS, and attestations by the address of their type; empty: nothing."""
    keys: tuple[str, ...] = ()
    """Files of public keys, any of which may have signed; empty: the policy's keys."""
    identities: tuple[str, ...] = ()
    """Patterns of REGISTRY/REPOSITORY[:TAG] that a signature may contain instead of the image's own (for mirrors)."""
    signers: tuple[Signer, ...] = ()
    """Signers without a key, any of whom may have signed; if there are neither keys nor signers: the policy's."""
    trusted_root: str = ""
    """File with the roots of trust for them (Sigstore's `trusted_root.json`); empty: the policy's."""

    @property
    def signed(self) -> tuple[str, ...]:
        """Return the needs that only a signature fulfils."""
        return tuple(need for need in self.needs if need == "signature" or need.startswith(ATTESTATION))

    @property
    def accepted(self) -> tuple[str, ...]:
        """Return the keys and the signers, as records of verifications name them."""
        return (*self.keys, *(signer.recorded(self.trusted_root) for signer in self.signers))

    def accepts(self, recorded: str) -> bool:
        """Return whether a key or a signer, as recorded, is one of this rule."""
        names = (signer.recorded(self.trusted_root) for signer in self.signers)
        return recorded in self.keys or any(re.fullmatch(stars(name, ".*"), recorded, re.DOTALL) for name in names)

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
    """Verification that an image needs if no rule matches its source: `digest`, `checksum`, `signature`,
    `attestation:TYPE`; empty: none."""
    keys: tuple[str, ...] = ()
    """Files of public keys, PEM or PGP; a signed image must be signed with one of them."""
    rules: tuple[TrustRule, ...] = ()
    """`{ source = "docker://HOST/*", needs = ["signature"], keys = [] }`: the first rule that matches applies; `*`
    matches any characters, except `/` in a host. Optional `identities`: image names in the signatures of a mirror."""
    signers: tuple[Signer, ...] = ()
    """Who may sign without a key (keyless): `{ identity = "me@example.org", issuer = "https://..." }`, as in the
    certificate; `*` in an identity matches any characters."""
    trusted_root: str = ""
    """File with the roots of trust for signers: Sigstore's `trusted_root.json`, or your own in this form."""
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
        """Return the rule for a reference or a path, else the default rule, with its keys and signers filled in."""
        rule = self.find(subject, resolve) or TrustRule("*", self.needs)
        if not rule.keys and not rule.signers:
            rule = rule._replace(keys=self.keys, signers=self.signers)
        own = rule._replace(trusted_root=rule.trusted_root or self.trusted_root)
        return stricter(own, self.also.rule_for(subject, resolve)) if self.also else own


def stricter(own: TrustRule, site: TrustRule) -> TrustRule:
    """Return a rule with the needs of both; if the site's needs a signature, only its keys and signers are accepted."""
    signed = site if site.signed else own
    return signed._replace(source=site.source if site.needs else own.source, needs=_in_order((*own.needs, *site.needs)))


def _in_order(needs: Iterable[str]) -> tuple[str, ...]:
    known = set(needs)
    return (*(need for need in NEEDS if need in known), *sorted(known - {*NEEDS}))


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
    """Parse the rules of a site profile: tables with the fields of TrustRule.

    Raises BadInputError if a rule is invalid.
    """
    return tuple(_parse_rule(table) for table in tables)


def _parse_rule(table: dict[str, object]) -> TrustRule:
    unknown = {*table} - {*TrustRule._fields}
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
    return TrustRule(
        source,
        parse_needs(table["needs"]),
        parse_keys(table.get("keys", [])),
        tuple(identities),
        parse_signers(table.get("signers", [])),
        parse_root(table["trusted_root"]) if "trusted_root" in table else "",
    )


def parse_needs(value: object) -> tuple[str, ...]:
    """Parse a list of NEEDS and attestations; short names of types become their addresses."""
    if not isinstance(value, list) or not all(_is_need(item) for item in value):
        types = f"{ATTESTATION}TYPE, TYPE an address or {', '.join(_PREDICATES)}"
        raise BadInputError(f"must be a list of {', '.join(NEEDS)}, {types} (may be empty), found {value!r}")
    split = (item.partition(ATTESTATION) for item in value)
    return _in_order(f"{head}{mark}{_PREDICATES.get(kind, kind)}" for head, mark, kind in split)


def _is_need(item: object) -> bool:
    return item in NAMED_NEEDS or (isinstance(item, str) and re.fullmatch(OTHER_NEED, item) is not None)


def parse_signers(value: object) -> tuple[Signer, ...]:
    """Parse a list of tables, each with the identity and the issuer of a signer."""
    tables: list[Any] = value if isinstance(value, list) else [value]
    if not all(
        isinstance(table, dict)
        and {*table} == {*Signer._fields}
        and all(isinstance(text, str) and text and text.isprintable() for text in table.values())
        for table in tables
    ):
        raise BadInputError(
            f'must be a list of tables like {{ identity = "me@example.org", issuer = "https://..." }}, found {value!r}'
        )
    return tuple(Signer(**table) for table in tables)


def parse_root(value: object) -> str:
    """Parse the path of a file with roots of trust."""
    if not isinstance(value, str) or not value.startswith("/"):
        raise BadInputError(f"must be the absolute path of a trusted_root.json, found {value!r}")
    return value


def parse_keys(value: object) -> tuple[str, ...]:
    """Parse a list of files of public keys."""
    if not isinstance(value, list) or not all(isinstance(key, str) and key.startswith("/") for key in value):
        raise BadInputError(f"must be a list of absolute paths to public keys, found {value!r}")
    return tuple(value)
