"""Verify the signatures of a SIF with the container runtime, only against the keys of a policy."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hpcmod.core.errors import BadInputError, LackingError, UnknownKeyError, UntrustedError, VerificationError
from hpcmod.core.fs.reading import read_file
from hpcmod.core.process import Completed, run
from hpcmod.core.which import which
from hpcmod.images.sif.reader import read_sif

BUNDLES = (".sigstore.json", ".sigstore")
"""Ends of the names of Sigstore bundles next to a file, as Sigstore's tools write them."""

_NO_BUNDLES = (
    "Verify it with `cosign verify-blob --bundle BUNDLE --certificate-identity NAME --certificate-oidc-issuer URL SIF`,"
    " and then give the sha256 of the SIF. Or ask its author for a SIF that `apptainer sign` signed."
)
_RUNTIMES = ("apptainer", "singularity")
_LIMIT = 1 << 20  # bytes of a key
_PEM = b"-----BEGIN PUBLIC KEY-----"
_CHANGED = ("integrity compromised", "object not signed", "not associated with object group", "signature not found")
"""The runtime's messages about a changed header or objects added after signing, which its JSON output omits."""


def check_sif_signature(
    sif: Path, keys: Sequence[str], environ: Mapping[str, str], *, shown: Path | None = None
) -> str:
    """Check that all of a SIF is signed by one of the keys; return the path of the key.

    The keys are files, PEM or PGP; `shown` is the path for messages, if `sif` is still a temporary path.

    Raises UntrustedError if it is not signed; UnknownKeyError if it is signed by none of the keys; VerificationError if
    it was changed after it was signed by one of them; BadInputError if a key cannot be read, or no key is given;
    LackingError if there is no container runtime on PATH.
    """
    shown = shown or sif
    if not any(descriptor.kind == "signature" for descriptor in read_sif(sif).descriptors):
        beside = next((path for end in BUNDLES if (path := Path(f"{shown}{end}")).is_file()), None)
        if beside:
            raise UntrustedError(
                f"{shown}: not signed; {beside} is a Sigstore bundle, which hpcmod cannot verify", _NO_BUNDLES
            )
        raise UntrustedError(
            f"{shown}: not signed", "Ask its author for a signed image, or change the rule in [trust]."
        )
    runtime = _require_runtime(environ, why=f"{shown}: verifying a signature")
    for key in keys:
        done = _verify(runtime, sif, Path(key), environ)
        if done.status == 0:
            return key
        if _was_changed(done):
            raise VerificationError(
                f"{shown}: changed after it was signed by {key}",
                "Do not use it. Fetch it again from its source.",
            )
    raise UnknownKeyError(
        f"{shown}: not signed by any key of the policy: {', '.join(keys) or 'it has none'}",
        f"Check who signed it: {Path(runtime).name} verify --all {shown if shown.exists() else sif}",
    )


def _verify(runtime: str, sif: Path, key: Path, environ: Mapping[str, str]) -> Completed:
    try:
        is_pem = _PEM in read_file(key, _LIMIT)
    except OSError as err:
        raise BadInputError(f"{key}: the public key cannot be read: {err.strerror}") from err
    if is_pem:
        return run([runtime, "verify", "--json", "--key", os.fspath(key), os.fspath(sif)], env=environ)
    with _keyring(runtime, key, environ) as only:
        return run([runtime, "verify", "--json", "--local", os.fspath(sif)], env=only)


@contextmanager
def _keyring(runtime: str, key: Path, environ: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
    """Yield an environment in which the runtime knows only this PGP key, not those of the user."""
    with tempfile.TemporaryDirectory(prefix="hpcmod-keys-") as directory:
        only = {**environ, "APPTAINER_KEYSDIR": directory, "SINGULARITY_KEYSDIR": directory}
        done = run([runtime, "key", "import", os.fspath(key)], env=only)
        if done.status:
            raise BadInputError(f"{key}: neither a PEM nor a PGP public key: {done.stderr.strip()[-200:]}")
        yield only


def _was_changed(done: Completed) -> bool:
    """Return whether the SIF was changed after signing: the key matches but the data does not, or data was added."""
    try:
        report: Any = json.loads(done.stdout)
        if any(not entry["Signer"]["DataCheck"] for entry in report["SignerKeys"] or ()):
            return True
    except (ValueError, KeyError, TypeError):
        pass
    return any(words in done.stderr for words in _CHANGED)


def _require_runtime(environ: Mapping[str, str], *, why: str) -> str:
    """Return the container runtime on PATH, which `why` needs, or raise LackingError."""
    found = next((path for name in _RUNTIMES if (path := which(name, environ))), None)
    if found is None:
        raise LackingError(
            f"{why} needs {' or '.join(_RUNTIMES)}, but none is on PATH",
            f"Load or install {_RUNTIMES[0]}; or fetch the image on a machine that has it, and copy the SIF.",
        )
    return found
