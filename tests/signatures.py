"""Signatures for tests: freshly made keys, and what cosign would push for an image.

Made with `cryptography`, as cosign 2 (its SIGNATURE_SPEC.md) and cosign 3.1.1 do: no such program has to be there.
Keyless signatures are of a stand-in for Sigstore's authority and logs, whose keys are in a file of roots of trust.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.registry import CONFIG, INDEX, MANIFEST, Registry

SIMPLE_SIGNING = "application/vnd.dev.cosign.simplesigning.v1+json"
STATEMENT = "application/vnd.in-toto+json"
BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json"
SIGNS = "https://sigstore.dev/cosign/sign/v1"
"""Predicate of the statement that cosign signs; the statements of attestations have others."""


@dataclass(frozen=True)
class KeyPair:
    """An ECDSA P-256 key, as used by cosign and `apptainer sign --key`."""

    private: ec.EllipticCurvePrivateKey
    public_file: Path
    private_file: Path


def make_key(directory: Path, name: str) -> KeyPair:
    """Make a key and write both halves as PEM files."""
    key = ec.generate_private_key(ec.SECP256R1())
    private, public = directory / f"{name}.key", directory / f"{name}.pub"
    plain = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    private.write_bytes(key.private_bytes(*plain))
    form = (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    public.write_bytes(key.public_key().public_bytes(*form))
    return KeyPair(key, public, private)


def signed_text(image: str, digest: str) -> bytes:
    """Return the payload that cosign signs."""
    return json.dumps(
        {
            "critical": {
                "identity": {"docker-reference": image},
                "image": {"docker-manifest-digest": digest},
                "type": "cosign container image signature",
            },
            "optional": None,
        }
    ).encode()


def push_signature(
    registry: Registry,
    repository: str,
    digest: str,
    signer: KeyPair | Authority,
    *,
    signs: str = "",
    named: str = "",
) -> None:
    """Push an image's signature where cosign 2 puts it; `signs` and `named` are another digest and name to sign."""
    content = signed_text(f"{registry.host}/{named or repository}", signs or digest)
    if isinstance(signer, KeyPair):
        notes = {"dev.cosignproject.cosign/signature": encode(_sign(signer.private, content))}
    else:
        certificate, value, entry = signer.sign(content, statement=False)
        promise = {
            "SignedEntryTimestamp": entry["inclusionPromise"]["signedEntryTimestamp"],
            "Payload": entry["promised"],
        }
        notes = {
            "dev.cosignproject.cosign/signature": encode(value),
            "dev.sigstore.cosign/certificate": certificate.public_bytes(serialization.Encoding.PEM).decode(),
            "dev.sigstore.cosign/bundle": json.dumps(promise),
        }
    _push_layer(registry, repository, f"{digest.replace(':', '-')}.sig", content, SIMPLE_SIGNING, notes)


def push_attestation(registry: Registry, repository: str, digest: str, bundle: bytes) -> None:
    """Push the statement of a bundle by a key where cosign 2 puts attestations."""
    envelope = json.dumps(json.loads(bundle)["dsseEnvelope"]).encode()
    kind, notes = "application/vnd.dsse.envelope.v1+json", {"dev.cosignproject.cosign/signature": ""}
    _push_layer(registry, repository, f"{digest.replace(':', '-')}.att", envelope, kind, notes)


def _push_layer(
    registry: Registry, repository: str, tag: str, content: bytes, kind: str, notes: dict[str, str]
) -> None:
    layer: dict[str, Any] = {**registry.push_blob(repository, content, kind), "annotations": notes}
    config = registry.push_blob(repository, b"{}", CONFIG)
    registry.push_manifest(
        repository, tag, {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer]}
    )


def make_bundle(signer: KeyPair | Authority, digest: str, *, predicate: str = SIGNS, says: str = "") -> bytes:
    """Make a Sigstore bundle as cosign 3: a signed statement about an image, which says this."""
    subject = {"digest": {"sha256": digest.partition(":")[2]}, "annotations": {}}
    statement = {"_type": "https://in-toto.io/Statement/v1", "subject": [subject], "predicateType": predicate}
    text = json.dumps({**statement, "predicate": {"says": says} if says else {}}).encode()
    by: dict[str, Any] = {"publicKey": {"hint": ""}}
    if isinstance(signer, KeyPair):
        value = _sign(signer.private, _paired(text))
    else:
        certificate, value, entry = signer.sign(text, statement=True)
        entry = {key: part for key, part in entry.items() if key != "promised"}
        raw = encode(certificate.public_bytes(serialization.Encoding.DER))
        by = {"certificate": {"rawBytes": raw}, "tlogEntries": [entry]}
    envelope = _envelope(text, value)
    return json.dumps({"mediaType": BUNDLE, "verificationMaterial": by, "dsseEnvelope": envelope}).encode()


def push_bundle(registry: Registry, repository: str, digest: str, bundle: bytes) -> None:
    """Push a bundle as cosign 3 does to a registry that has no list of referrers."""
    layer = registry.push_blob(repository, bundle, BUNDLE)
    config = registry.push_blob(repository, b"{}", "application/vnd.oci.empty.v1+json")
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer]}
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [registry.push_manifest(repository, "", manifest)]}
    registry.push_manifest(repository, digest.replace(":", "-"), index)


def encode(data: bytes) -> str:
    """Return bytes in base64."""
    return base64.b64encode(data).decode()


def _sign(key: ec.EllipticCurvePrivateKey, content: bytes) -> bytes:
    return key.sign(content, ec.ECDSA(hashes.SHA256()))


def _hash(content: bytes) -> dict[str, str]:
    return {"algorithm": "sha256", "value": hashlib.sha256(content).hexdigest()}


def _envelope(statement: bytes, signature: bytes) -> dict[str, Any]:
    return {"payload": encode(statement), "payloadType": STATEMENT, "signatures": [{"sig": encode(signature)}]}


def _paired(statement: bytes) -> bytes:
    """Return what is signed of a statement: its type and its text, as DSSE encodes them."""
    return f"DSSEv1 {len(STATEMENT)} {STATEMENT} {len(statement)} ".encode() + statement


def _new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _public(key: ec.EllipticCurvePrivateKey) -> bytes:
    form = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return key.public_key().public_bytes(*form)


@dataclass(frozen=True)
class Authority:
    """Stand-in for Sigstore: an authority that certifies identities, and its two logs, each with a key of its own."""

    identity: str = "me@example.org"
    issuer: str = "https://accounts.example.org"
    late: timedelta = timedelta(0)
    """How long after the certificate the log records a signature; certificates are valid for ten minutes."""
    ca: ec.EllipticCurvePrivateKey = field(default_factory=_new_key)
    certificates: ec.EllipticCurvePrivateKey = field(default_factory=_new_key)
    """Of the log of certificates."""
    signatures: ec.EllipticCurvePrivateKey = field(default_factory=_new_key)
    """Of the log of signatures."""
    begin: datetime = datetime(2026, 1, 1, tzinfo=timezone.utc)

    def write_root(self, file: Path) -> Path:
        """Write the file of roots of trust (protobuf-specs, sigstore_trustroot.proto)."""
        valid = {"start": f"{self.begin:%Y-%m-%dT%H:%M:%SZ}"}

        def log(key: ec.EllipticCurvePrivateKey) -> dict[str, Any]:
            public = {"rawBytes": encode(_public(key)), "keyDetails": "PKIX_ECDSA_P256_SHA_256", "validFor": valid}
            name = {"keyId": encode(hashlib.sha256(_public(key)).digest())}
            return {"baseUrl": "https://log.invalid", "hashAlgorithm": "SHA2_256", "publicKey": public, "logId": name}

        root = encode(self._root().public_bytes(serialization.Encoding.DER))
        authority = {
            "subject": {"organization": "tests", "commonName": "tests"},
            "uri": "https://ca.invalid",
            "certChain": {"certificates": [{"rawBytes": root}]},
            "validFor": valid,
        }
        kind = "application/vnd.dev.sigstore.trustedroot+json;version=0.1"
        logs = {"tlogs": [log(self.signatures)], "ctlogs": [log(self.certificates)]}
        file.write_text(json.dumps({"mediaType": kind, **logs, "certificateAuthorities": [authority]}))
        return file

    def sign(self, content: bytes, *, statement: bool) -> tuple[x509.Certificate, bytes, dict[str, Any]]:
        """Sign a statement or a payload with a new key; return its certificate, the signature and the log's entry."""
        key = _new_key()
        certificate = self._certify(key)
        value = _sign(key, _paired(content) if statement else content)
        digest = _hash(content)
        by = encode(certificate.public_bytes(serialization.Encoding.PEM))
        spec: dict[str, Any]
        if statement:
            of = {"signature": encode(value), "verifier": by}
            envelope = json.dumps(_envelope(content, value), separators=(",", ":")).encode()
            spec = {"envelopeHash": _hash(envelope), "payloadHash": digest, "signatures": [of]}
        else:
            spec = {"data": {"hash": digest}, "signature": {"content": encode(value), "publicKey": {"content": by}}}
        kind = "dsse" if statement else "hashedrekord"
        return certificate, value, self._record({"apiVersion": "0.0.1", "kind": kind, "spec": spec})

    def _record(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the second entry of a log of two; `promised` is what its promise is a signature of."""
        text = json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
        name = hashlib.sha256(_public(self.signatures)).digest()
        time = int((self.begin + self.late + timedelta(minutes=1)).timestamp())
        promised = {"body": encode(text), "integratedTime": time, "logID": name.hex(), "logIndex": 1}
        promise = _sign(self.signatures, json.dumps(promised, sort_keys=True, separators=(",", ":")).encode())
        first, second = (hashlib.sha256(b"\0" + entry).digest() for entry in (b"first", text))
        root = hashlib.sha256(b"\1" + first + second).digest()
        note = f"log.invalid - 1\n2\n{encode(root)}\n"
        signed = encode(name[:4] + _sign(self.signatures, note.encode()))
        checkpoint = {"envelope": f"{note}\n\u2014 log.invalid {signed}\n"}
        return {
            "logIndex": "1",
            "logId": {"keyId": encode(name)},
            "integratedTime": str(time),
            "kindVersion": {"kind": body["kind"], "version": body["apiVersion"]},
            "inclusionPromise": {"signedEntryTimestamp": encode(promise)},
            "inclusionProof": {
                "logIndex": "1",
                "rootHash": encode(root),
                "treeSize": "2",
                "hashes": [encode(first)],
                "checkpoint": checkpoint,
            },
            "canonicalizedBody": encode(text),
            "promised": promised,
        }

    def _root(self) -> x509.Certificate:
        return (
            self._builder("tests", self.ca, timedelta(days=3650))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(ca=True), critical=True)
            .sign(self.ca, hashes.SHA256())
        )

    def _certify(self, key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
        """Return a certificate as Fulcio's: with a receipt of the log of certificates (RFC 6962)."""
        issuer = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.1"), self.issuer.encode())
        name = x509.RFC822Name if "://" not in self.identity else x509.UniformResourceIdentifier
        purpose = x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.CODE_SIGNING])
        public = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.ca.public_key())
        builder = (
            self._builder("", key, timedelta(minutes=10))
            .add_extension(_usage(ca=False), critical=True)
            .add_extension(purpose, critical=False)
            .add_extension(x509.SubjectAlternativeName([name(self.identity)]), critical=True)
            .add_extension(public, critical=False)
            .add_extension(issuer, critical=False)
        )
        tbs = builder.sign(self.ca, hashes.SHA256()).tbs_certificate_bytes
        time = struct.pack(">Q", int(self.begin.timestamp() * 1000))
        of = hashlib.sha256(_public(self.ca)).digest() + len(tbs).to_bytes(3, "big") + tbs
        value = _sign(self.certificates, b"\0\0" + time + b"\0\1" + of + b"\0\0")
        by = hashlib.sha256(_public(self.certificates)).digest()
        receipt = b"\0" + by + time + b"\0\0" + b"\4\3" + struct.pack(">H", len(value)) + value
        listed = struct.pack(">HH", len(receipt) + 2, len(receipt)) + receipt
        der = bytes([4, 0x81, len(listed)]) + listed if len(listed) > 127 else bytes([4, len(listed)]) + listed
        receipts = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2"), der)
        return builder.add_extension(receipts, critical=False).sign(self.ca, hashes.SHA256())

    def _builder(self, name: str, key: ec.EllipticCurvePrivateKey, valid: timedelta) -> x509.CertificateBuilder:
        root = x509.Name([x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, "tests")])
        return (
            x509.CertificateBuilder()
            .subject_name(root if name else x509.Name([]))
            .issuer_name(root)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(self.begin)
            .not_valid_after(self.begin + valid)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )


def _usage(*, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not ca,
        key_cert_sign=ca,
        crl_sign=ca,
        **dict.fromkeys(
            (
                "content_commitment",
                "key_encipherment",
                "data_encipherment",
                "key_agreement",
                "encipher_only",
                "decipher_only",
            ),
            False,
        ),
    )
