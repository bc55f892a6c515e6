"""Check the signatures of a SIF with the container runtime, against the keys that a policy names and no others."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hpcmod.errors import BadInputError, UnknownKeyError, UntrustedError, VerificationError
from hpcmod.fs.reading import read_file
from hpcmod.image.programs import RUNTIMES, find_program
from hpcmod.image.sif import read_sif
from hpcmod.process import Completed, run

_LIMIT = 1 << 20  # bytes of a key
_PEM = b"-----BEGIN PUBLIC KEY-----"
_CHANGED = ("integrity compromised", "object not signed", "not associated with object group", "signature not found")
"""What the runtime says of a changed header, and of objects that were added after signing; its JSON does not tell."""


def check_sif_signature(
    sif: Path, keys: Sequence[str], environ: Mapping[str, str], *, shown: Path | None = None
) -> str:
    """Check that all of a SIF is signed by one of the keys; return the key's file.

    Parameters
    ----------
    keys
        Files of public keys, PEM or PGP.
    shown
        Its name in messages, if that is another one, for the file is under a temporary name still.

    Raises
    ------
    UntrustedError
        If it is not signed.
    UnknownKeyError
        If it is signed by none of the keys.
    VerificationError
        If what was signed by one of them was changed afterwards.
    BadInputError
        If a key cannot be read, or there is none.
    LackingError
        If this machine has no runtime.
    """
    shown = shown or sif
    if not any(one.kind == "signature" for one in read_sif(sif).descriptors):
        raise UntrustedError(
            f"{shown}: is not signed", "Ask its maker for a signed one, or name another rule in [trust]."
        )
    runtime = find_program(RUNTIMES, environ, why=f"{shown}: checking a signature")
    for key in keys:
        done = _verify(runtime, sif, Path(key), environ)
        if done.status == 0:
            return key
        if _was_changed(done):
            raise VerificationError(
                f"{shown}: is not what {key} has signed: it was changed afterwards",
                "Do not use it. Get it again from its source.",
            )
    raise UnknownKeyError(
        f"{shown}: is signed by none of the keys that the policy names: {', '.join(keys)}",
        f"See who signed it: {Path(runtime).name} verify --all {shown if shown.exists() else sif}",
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
    """Make an environment in which the runtime knows one PGP key and not those of the user."""
    with tempfile.TemporaryDirectory(prefix="hpcmod-keys-") as directory:
        only = {**environ, "APPTAINER_KEYSDIR": directory, "SINGULARITY_KEYSDIR": directory}
        done = run([runtime, "key", "import", os.fspath(key)], env=only)
        if done.status:
            raise BadInputError(f"{key}: neither a PEM nor a PGP public key: {done.stderr.strip()[-200:]}")
        yield only


def _was_changed(done: Completed) -> bool:
    """Return whether the SIF is not what was signed: a key fits and the data do not, or something was added."""
    try:
        report: Any = json.loads(done.stdout)
        if any(not entry["Signer"]["DataCheck"] for entry in report["SignerKeys"] or ()):
            return True
    except (ValueError, KeyError, TypeError):
        pass
    return any(words in done.stderr for words in _CHANGED)
