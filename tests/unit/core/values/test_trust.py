from __future__ import annotations

import pytest

from hpcmod.core.errors import BadInputError, UntrustedError
from hpcmod.core.values.reference import ImageReference
from hpcmod.core.values.trust import Signer, TrustPolicy, TrustRule, check_pinned, parse_needs, stricter
from hpcmod.machine.values.profile import make_site, parse_profile

DIGEST = "sha256:" + "0" * 64
POLICY = TrustPolicy(
    ("digest",),
    ("/site.pem",),
    (
        TrustRule("docker://ghcr.io/lab/*", ("signature",), ("/lab.pub",)),
        TrustRule("docker://ghcr.io/*", ("digest", "signature")),
        TrustRule("/apps/*"),
    ),
)


@pytest.mark.parametrize(
    ("subject", "rule"),
    [
        ("docker://ghcr.io/lab/a/b:1", TrustRule("docker://ghcr.io/lab/*", ("signature",), ("/lab.pub",))),
        ("docker://ghcr.io/other:1", TrustRule("docker://ghcr.io/*", ("digest", "signature"), ("/site.pem",))),
        ("docker://ghcr.io:443/other:1", TrustRule("docker://ghcr.io/*", ("digest", "signature"), ("/site.pem",))),
        ("docker://ghcr.io:4430/other:1", TrustRule("*", ("digest",), ("/site.pem",))),
        ("oras://ghcr.io:443/other:1", TrustRule("*", ("digest",), ("/site.pem",))),
        ("docker://ghcrXio/other:1", TrustRule("*", ("digest",), ("/site.pem",))),
        ("/apps/x/y.sif", TrustRule("/apps/*", (), ("/site.pem",))),
        ("https://host/docker://ghcr.io/lab/a", TrustRule("*", ("digest",), ("/site.pem",))),
    ],
)
def test_the_first_rule_that_fits_the_whole_reference_counts(subject: str, rule: TrustRule) -> None:
    assert POLICY.rule_for(subject) == rule


@pytest.mark.parametrize(
    ("needs", "text", "checksum", "verified"),
    [
        ((), "docker://h.io/x:1", None, ()),
        (("digest",), f"docker://h.io/x@{DIGEST}", None, (f"digest: {DIGEST}",)),
        (("digest",), "https://h.io/x.sif", "1" * 64, (f"digest: sha256:{'1' * 64}",)),
        (("checksum",), f"docker://h.io/x@{DIGEST}", "1" * 64, (f"checksum: sha256:{'1' * 64}",)),
    ],
)
def test_the_evidence_is_reported(
    needs: tuple[str, ...], text: str, checksum: str | None, verified: tuple[str, ...]
) -> None:
    assert check_pinned(ImageReference.parse(text), TrustRule("*", needs), checksum) == verified


@pytest.mark.parametrize(
    ("needs", "text"),
    [(("digest",), "docker://h.io/x:1"), (("digest",), "x.sif"), (("checksum",), f"docker://h.io/x@{DIGEST}")],
)
def test_refuses_unpinned_images_with_a_cure(needs: tuple[str, ...], text: str) -> None:
    with pytest.raises(UntrustedError, match=f"rule for [*] requires a {needs[0]}") as caught:
        check_pinned(ImageReference.parse(text), TrustRule("*", needs), None)
    assert caught.value.cure


def site_trust(text: str) -> TrustPolicy:
    return make_site([parse_profile(f'name = "x"\n{text}', "x.toml")]).images.trust


def test_a_profile_gives_the_policy() -> None:
    text = '[trust]\nneeds = ["digest"]\nkeys = ["/k"]\nrules = [{ source = "oras://*", needs = ["signature"] }]'
    assert site_trust(text) == TrustPolicy(("digest",), ("/k",), (TrustRule("oras://*", ("signature",)),))
    assert site_trust("") == TrustPolicy()


@pytest.mark.parametrize(
    "line",
    [
        *('needs = "digest"', 'needs = ["magic"]', 'keys = ["k.pem"]', "keys = [1]", "rules = {}", "rules = [1]"),
        *(
            'rules = [{ source = "*" }]',
            "rules = [{ needs = [] }]",
            'rules = [{ source = "*", needs = [], key = "/k" }]',
            'rules = [{ source = "/a/*/../b", needs = [] }]',
            'rules = [{ source = "https://h/a%2fb", needs = [] }]',
        ),
    ],
)
def test_a_rule_that_is_not_as_it_must_be_is_refused(line: str) -> None:
    with pytest.raises(BadInputError, match=r"trust\."):
        site_trust(f"[trust]\n{line}")


@pytest.mark.parametrize("subject", ["https://host.org/a.sif", "https://host.org:443/a.sif"])
@pytest.mark.parametrize("source", ["https://host.org/*", "https://host.org:443/*"])
def test_the_port_of_https_makes_no_difference_on_either_side(source: str, subject: str) -> None:
    assert matches(source, subject)
    assert not matches("https://host.org:8443/*", subject)


def matches(source: str, subject: str) -> bool:
    return TrustPolicy(rules=(TrustRule(source),)).find(subject) is not None


@pytest.mark.parametrize(
    ("source", "subject"),
    [
        ("http://h:5603/secure/*", "http://h:5603/x/../secure/i.sif"),
        ("http://h:5603/secure/*", "http://H:5603/./secure/%2e%2e/secure/i.sif?..."),
        ("https://h/exact.sif", "https://user:pw@h./exact.sif?..."),
        ("docker://127.0.0.1:05601/*", "docker://127.0.0.1:5601/lib/x:1"),
        ("docker://index.docker.io/ubuntu", "docker://docker.io/library/ubuntu"),
        ("oci-archive:/srv/*", "oci-archive:/home/../srv/x.tar:1"),
    ],
)
def test_a_rule_holds_for_every_spelling(source: str, subject: str) -> None:
    assert matches(source, subject)


@pytest.mark.parametrize(
    ("source", "subject"),
    [
        ("/srv/apps/containers/*", "/srv/apps/containers/../../evil/evil.sif"),
        ("http://h/public/*", "http://h/public/../private/evil.sif"),
        ("http://h/public/*", "http://h/public/%2e%2E/private/evil.sif"),
        ("https://*.example.org/x/*", "https://evil.com/a.example.org/x/i.sif"),
        ("https://ghcr.io/*", "https://ghcr.io:8443/x"),
    ],
)
def test_a_rule_holds_for_no_other_place(source: str, subject: str) -> None:
    assert not matches(source, subject)


@pytest.mark.parametrize("path", ["public%2f..%2fsecure/i.sif", "a%5Cb.sif", "secure;x/i.sif", "a%00b.sif"])
def test_an_address_that_servers_read_differently_is_refused_where_there_are_rules(path: str) -> None:
    with pytest.raises(UntrustedError, match="cannot be checked against"):
        POLICY.rule_for(f"https://h/{path}")
    assert TrustPolicy(("digest",)).rule_for(f"https://h/{path}").needs == ("digest",)


def test_a_rule_for_a_directory_holds_under_its_other_names() -> None:
    policy = TrustPolicy(rules=(TrustRule("/apps/*.sif"),))
    assert policy.find("/pfs/a/x.sif", lambda path: path.replace("/apps", "/pfs/a"))
    assert not policy.find("/apps/x.sif", lambda path: path.replace("/apps", "/pfs/a"))


@pytest.mark.parametrize(
    ("own", "needs", "keys"),
    [
        (TrustPolicy(), ("digest",), ()),
        (TrustPolicy(rules=(TrustRule("*"),)), ("digest",), ()),
        (TrustPolicy(("checksum", "signature"), ("/own",)), ("digest", "checksum", "signature"), ("/own",)),
    ],
)
def test_a_second_policy_adds_and_relaxes_nothing(
    own: TrustPolicy, needs: tuple[str, ...], keys: tuple[str, ...]
) -> None:
    rule = own._replace(also=TrustPolicy(("digest",))).rule_for("docker://h.io/x:1")
    assert (rule.needs, rule.keys) == (needs, keys)


def test_only_the_sites_keys_sign_where_the_site_wants_a_signature() -> None:
    site = TrustPolicy(("signature",), ("/site",))
    assert TrustPolicy(("signature",), ("/own",), also=site).rule_for("/x.sif").keys == ("/site",)


ME = Signer("me@example.org", "https://i")


def test_a_rule_without_keys_and_signers_has_those_of_the_policy() -> None:
    own = TrustRule("docker://a/*", ("signature",), signers=(Signer("you@*", "https://i"),), trusted_root="/own")
    policy = TrustPolicy(("signature",), ("/k",), (own,), (ME,), "/root")
    assert policy.rule_for("docker://a/x") == own
    assert policy.rule_for("docker://b/x") == TrustRule("*", ("signature",), ("/k",), (), (ME,), "/root")
    site = policy._replace(rules=(), needs=("attestation:https://x",))
    both = stricter(own, site.rule_for("docker://a/x"))
    assert both.needs == ("signature", "attestation:https://x")
    assert (both.keys, both.signers, both.trusted_root) == (("/k",), (ME,), "/root")


def test_attestations_are_named_as_cosign_does_or_by_the_address_of_their_type() -> None:
    address = "attestation:https://spdx.dev/Document"
    assert parse_needs(["attestation:spdx", "digest", address]) == ("digest", address)
    for wrong in ("attestation:", "attestation:none", "attestation:https://a b", "attestation", 1):
        with pytest.raises(BadInputError, match="attestation:TYPE, TYPE an address or custom, cyclonedx"):
            parse_needs([wrong])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('signers = [{ identity = "me" }]', "must be a list of tables like"),
        ('signers = [{ identity = "me", issuer = "" }]', "must be a list of tables like"),
        ('signers = "me"', "must be a list of tables like"),
        ('trusted_root = "root.json"', "must be the absolute path of a trusted_root.json"),
    ],
)
def test_invalid_signers_are_refused_in_the_policy_and_in_a_rule(text: str, message: str) -> None:
    for table in (f"[trust]\n{text}\n", f'[[trust.rules]]\nsource = "*"\nneeds = []\n{text}\n'):
        with pytest.raises(BadInputError, match=message):
            parse_profile(f'name = "x"\n{table}', "x.toml")
