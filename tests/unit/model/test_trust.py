from __future__ import annotations

import pytest

from hpcmod.errors import BadInputError, UntrustedError
from hpcmod.model.profiles.profile import make_site, parse_profile
from hpcmod.model.reference import ImageReference
from hpcmod.model.trust import Rule, TrustPolicy, check_pinned

DIGEST = "sha256:" + "0" * 64
POLICY = TrustPolicy(
    ("digest",),
    ("/site.pem",),
    (
        Rule("docker://ghcr.io/lab/*", ("signature",), ("/lab.pub",)),
        Rule("docker://ghcr.io/*", ("digest", "signature")),
        Rule("/apps/*"),
    ),
)


@pytest.mark.parametrize(
    ("subject", "rule"),
    [
        ("docker://ghcr.io/lab/a/b:1", Rule("docker://ghcr.io/lab/*", ("signature",), ("/lab.pub",))),
        ("docker://ghcr.io/other:1", Rule("docker://ghcr.io/*", ("digest", "signature"), ("/site.pem",))),
        ("docker://ghcr.io:443/other:1", Rule("docker://ghcr.io/*", ("digest", "signature"), ("/site.pem",))),
        ("docker://ghcr.io:4430/other:1", Rule("*", ("digest",), ("/site.pem",))),
        ("oras://ghcr.io:443/other:1", Rule("*", ("digest",), ("/site.pem",))),
        ("docker://ghcrXio/other:1", Rule("*", ("digest",), ("/site.pem",))),
        ("/apps/x/y.sif", Rule("/apps/*", (), ("/site.pem",))),
        ("https://host/docker://ghcr.io/lab/a", Rule("*", ("digest",), ("/site.pem",))),
    ],
)
def test_the_first_rule_that_fits_the_whole_reference_counts(subject: str, rule: Rule) -> None:
    assert POLICY.rule_for(subject) == rule


@pytest.mark.parametrize(
    ("needs", "text", "checksum", "vouched"),
    [
        ((), "docker://h.io/x:1", None, "nothing required"),
        (("digest",), f"docker://h.io/x@{DIGEST}", None, f"digest: {DIGEST}"),
        (("digest",), "https://h.io/x.sif", "1" * 64, f"digest: sha256:{'1' * 64}"),
        (("checksum",), f"docker://h.io/x@{DIGEST}", "1" * 64, f"checksum: sha256:{'1' * 64}"),
    ],
)
def test_what_vouches_is_told(needs: tuple[str, ...], text: str, checksum: str | None, vouched: str) -> None:
    assert str(check_pinned(ImageReference.parse(text), Rule("*", needs), checksum)) == vouched


@pytest.mark.parametrize(
    ("needs", "text"),
    [
        (("digest",), "docker://h.io/x:1"),
        (("digest",), "x.sif"),
        (("checksum",), f"docker://h.io/x@{DIGEST}"),
    ],
)
def test_what_is_not_pinned_as_the_rule_wants_is_refused_with_the_cure(needs: tuple[str, ...], text: str) -> None:
    with pytest.raises(UntrustedError, match=f"rule for [*] wants a {needs[0]}") as caught:
        check_pinned(ImageReference.parse(text), Rule("*", needs), None)
    assert caught.value.cure


def site_trust(text: str) -> TrustPolicy:
    return make_site([parse_profile(f'name = "x"\n{text}', "x.toml")]).trust


def test_a_profile_gives_the_policy() -> None:
    text = '[trust]\nneeds = ["digest"]\nkeys = ["/k"]\nrules = [{ source = "oras://*", needs = ["signature"] }]'
    assert site_trust(text) == TrustPolicy(("digest",), ("/k",), (Rule("oras://*", ("signature",)),))
    assert site_trust("") == TrustPolicy()


@pytest.mark.parametrize(
    "line",
    [
        *('needs = "digest"', 'needs = ["magic"]', 'keys = ["k.pem"]', "keys = [1]", "rules = {}", "rules = [1]"),
        *(
            'rules = [{ source = "*" }]',
            "rules = [{ needs = [] }]",
            'rules = [{ source = "*", needs = [], key = "/k" }]',
        ),
    ],
)
def test_a_rule_that_is_not_as_it_must_be_is_refused(line: str) -> None:
    with pytest.raises(BadInputError, match=r"trust\."):
        site_trust(f"[trust]\n{line}")


@pytest.mark.parametrize("subject", ["https://host.org/a.sif", "https://host.org:443/a.sif"])
@pytest.mark.parametrize("source", ["https://host.org/*", "https://host.org:443/*"])
def test_the_port_of_https_makes_no_difference_on_either_side(source: str, subject: str) -> None:
    assert Rule(source).fits(subject)
    assert not Rule("https://host.org:8443/*").fits(subject)
