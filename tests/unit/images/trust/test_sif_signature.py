"""Checks around the call of the runtime; tests/integration/test_trust.py makes and verifies signed SIFs with it."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from hpcmod.core.errors import BadInputError, LackingError, UnknownKeyError, UntrustedError, VerificationError
from hpcmod.images.trust.sif_signature import check_sif_signature
from tests.corpus import DESCRIPTORS_AT, make_sif
from tests.programs import make_program

PEM = b"-----BEGIN PUBLIC KEY-----\n"
CHANGED = '{"SignerKeys": [{"Signer": {"Partition": "x", "DataCheck": false}}]}'
FITS_NOT = '{"SignerKeys": null}'


def signed(path: Path) -> Path:
    """Write a SIF that contains a signature object; its reader does not know what was signed."""
    make_sif(path)
    with path.open("r+b") as file:
        file.seek(DESCRIPTORS_AT)
        file.write(struct.pack("<i", 0x4005))
    return path


@pytest.fixture
def key(tmp_path: Path) -> str:
    path = tmp_path / "key.pub"
    path.write_bytes(PEM)
    return str(path)


def runtime(tmp_path: Path, script: str) -> dict[str, str]:
    """Put a fake runtime on PATH."""
    program = make_program(tmp_path / "bin" / "apptainer", f"#!/bin/sh\n{script}\n")
    return {"PATH": f"{program.parent}:{os.defpath}"}


def test_one_without_a_signature_is_refused_before_a_runtime_is_looked_for(tmp_path: Path, key: str) -> None:
    with pytest.raises(UntrustedError, match=r"shown\.sif: not signed"):
        check_sif_signature(make_sif(tmp_path / "x.sif"), [key], {}, shown=Path("shown.sif"))


def test_a_sigstore_bundle_next_to_it_is_no_signature(tmp_path: Path, key: str) -> None:
    sif = make_sif(tmp_path / "x.sif")
    (tmp_path / "x.sif.sigstore.json").write_text("{}")
    with pytest.raises(UntrustedError, match=r"x\.sif: not signed; .*is a Sigstore bundle") as caught:
        check_sif_signature(sif, [key], {})
    assert "cosign verify-blob --bundle" in caught.value.cure


def test_a_machine_without_a_runtime_cannot_tell(tmp_path: Path, key: str) -> None:
    with pytest.raises(LackingError, match="needs apptainer or singularity, but none is on PATH"):
        check_sif_signature(signed(tmp_path / "x.sif"), [key], {"PATH": str(tmp_path)})


def test_the_key_that_fits_is_reported(tmp_path: Path, key: str) -> None:
    other = tmp_path / "other.pub"
    other.write_bytes(PEM)
    environ = runtime(tmp_path, f"case \"$*\" in *other.pub*) echo '{FITS_NOT}'; exit 255;; esac")
    assert check_sif_signature(signed(tmp_path / "x.sif"), [str(other), key], environ) == key
    with pytest.raises(UnknownKeyError, match=r"other\.pub"):
        check_sif_signature(tmp_path / "x.sif", [str(other)], environ)


@pytest.mark.parametrize("said", [f"echo '{CHANGED}'", "echo 'data object integrity compromised' >&2"])
def test_distinguishes_later_changes_from_an_unknown_key(tmp_path: Path, key: str, said: str) -> None:
    environ = runtime(tmp_path, f"{said}; exit 255")
    with pytest.raises(VerificationError, match="changed after it was signed"):
        check_sif_signature(signed(tmp_path / "x.sif"), [key], environ)


def test_an_unreadable_or_invalid_key_is_reported(tmp_path: Path) -> None:
    environ = runtime(tmp_path, 'case "$*" in *import*) echo "no key" >&2; exit 1;; esac')
    sif = signed(tmp_path / "x.sif")
    with pytest.raises(BadInputError, match=r"none\.pub: the public key cannot be read"):
        check_sif_signature(sif, [str(tmp_path / "none.pub")], environ)
    (tmp_path / "text.pub").write_text("hello")
    with pytest.raises(BadInputError, match="neither a PEM nor a PGP public key: no key"):
        check_sif_signature(sif, [str(tmp_path / "text.pub")], environ)
