"""Verify keyless signatures with the library sigstore, offline: with a file of roots of trust instead of its servers.

Import this module only where such a signature is to be verified: the library is an extra.
"""

from __future__ import annotations

import re
from itertools import product

from cryptography import x509
from sigstore.errors import VerificationError
from sigstore.models import Bundle, TrustedRoot
from sigstore.verify import Verifier
from sigstore.verify.policy import AnyOf, OIDCIssuer, OIDCIssuerV2

from hpcmod.core.errors import BadInputError, UnknownKeyError
from hpcmod.core.values.trust import Signer, TrustRule, stars
from hpcmod.images.trust.cosign import Signature


class _SignerPolicy:
    """Which certificates the library accepts, once they are verified: those of the rule's signers."""

    def __init__(self, rule: TrustRule) -> None:
        self._rule = rule
        self.signer = ""
        """The signer that was accepted, as records name it."""

    def verify(self, cert: x509.Certificate) -> None:
        """Accept a certificate, or raise the library's error."""
        subject = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names = [*subject.get_values_for_type(x509.RFC822Name)]
        names += subject.get_values_for_type(x509.UniformResourceIdentifier)
        fitting = [
            (name, signer.issuer)
            for name, signer in product(names, self._rule.signers)
            if re.fullmatch(stars(signer.identity, ".*"), name, re.DOTALL)
        ]
        if not fitting:
            raise VerificationError(f"its certificate is for {', '.join(names)}")
        for name, issuer in fitting:
            try:
                AnyOf([OIDCIssuer(issuer), OIDCIssuerV2(issuer)]).verify(cert)
            except VerificationError:
                continue
            self.signer = Signer(name, issuer).recorded(self._rule.trusted_root)
            return
        raise VerificationError(f"its certificate is for {fitting[0][0]}, but of another issuer")


def find_signer(signature: Signature, rule: TrustRule) -> str:
    """Return the signer of a rule who has made a keyless signature, as records name it.

    Raises UnknownKeyError if none has: the certificate is for another identity, by an authority that is no root of
    trust, or expired when the log recorded the signature, or the signature is not valid; BadInputError if the rule's
    roots of trust cannot be used.
    """
    try:
        verifier = Verifier(trusted_root=TrustedRoot.from_file(rule.trusted_root))
    except Exception as err:  # pydantic's, cryptography's, the system's
        raise BadInputError(
            f"trusted_root: {rule.trusted_root or 'no file is named'}: not roots of trust of Sigstore: {err}",
            "Name such a file in the site's policy: `cosign trusted-root create` makes one.",
        ) from err
    accepted = _SignerPolicy(rule)
    try:
        bundle = Bundle.from_json(signature.bundle)
        if not signature.proven:  # the library would look for the proof, too
            vars(bundle.log_entry)["_verify"] = bundle.log_entry._verify_set
        if signature.predicate:
            signed = verifier.verify_dsse(bundle, accepted)[1]
        else:
            signed = signature.text
            verifier.verify_artifact(signed, bundle, accepted)
    except Exception as err:  # whatever the library makes of a bundle by anyone
        raise UnknownKeyError(f"{err}".partition("\n")[0]) from err
    if signed != signature.text:
        raise UnknownKeyError("its bundle is of another statement")
    return accepted.signer
