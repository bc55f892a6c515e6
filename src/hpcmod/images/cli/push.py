"""The command `hpcmod push`: push a SIF or an OCI image to a registry, and sign it."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import click

from hpcmod.core.cli.arguments import complete_file
from hpcmod.core.cli.flags import with_flags
from hpcmod.core.cli.output import json_option, print_data, print_json, tell
from hpcmod.core.errors import BadInputError
from hpcmod.core.progress import ProgressLine
from hpcmod.core.values.reference import ImageReference


@dataclass(frozen=True)
class PushedImage:
    """An image that was pushed to a registry."""

    dry_run: bool
    reference: str
    """With its digest."""
    digest: str
    size: int
    """Bytes of all blobs."""
    changed: bool
    """False: the registry had this image under this tag already."""
    signature: str
    """Digest of the signature; empty: not signed."""


@dataclass(frozen=True)
class PushFlags:
    """Arguments and options of `hpcmod push`."""

    image: str
    reference: str
    key: Path | None
    force: bool
    dry_run: bool
    allow_http: bool
    as_json: bool


@click.command("push")
@click.argument("image", shell_complete=complete_file)
@click.argument("reference")
@click.option(
    "--key", type=click.Path(path_type=Path), metavar="FILE", help="ECDSA private key in PEM to sign the image with."
)
@click.option("--force", is_flag=True, help="Replace a tag that means another image.")
@click.option("--dry-run", is_flag=True, help="Print what would be pushed; send nothing.")
@click.option("--allow-http", is_flag=True, help="Push to a registry without TLS.")
@json_option(PushedImage)
@with_flags(PushFlags)
def push_verb(flags: PushFlags) -> None:
    """Push a SIF or an OCI image to a registry, and sign it.

    IMAGE is a SIF, which becomes oras://HOST/NAME:TAG, or oci:DIRECTORY[:TAG], which becomes docker://HOST/NAME:TAG
    with all its architectures. Prints the reference with its digest. What the registry has is not sent again.

    With --key, the image is signed as cosign does, with a key that is not encrypted: hpcmod verify and cosign verify it
    with the public key.

    \b
    Examples:
      hpcmod push torch.sif oras://ghcr.io/org/torch:2.7
      hpcmod push torch.sif oras://ghcr.io/org/torch:2.7 --key signing.key
      hpcmod push oci:layout:v1 docker://ghcr.io/org/image:v1
    """
    from hpcmod.images import push
    from hpcmod.images.web.credentials import Access

    source, target = ImageReference.parse(flags.image), _parse_target(flags.image, flags.reference)
    with ProgressLine(flags.image) if not flags.as_json else nullcontext() as progress:
        content = push.read_pushable(source, progress)
    access = Access(allow_http=flags.allow_http, announce=tell)
    changed, signature = False, ""
    if not flags.dry_run:
        with ProgressLine(target.canonical) if not flags.as_json else nullcontext() as progress:
            changed = push.push(content, target, force=flags.force, access=access, progress=progress)
        signature = push.sign(target, content.digest, flags.key, access=access) if flags.key else ""
    exact = replace(target, digest=content.digest).canonical
    if flags.as_json:
        print_json(PushedImage(flags.dry_run, exact, content.digest, content.size, changed, signature))
        return
    print_data(exact)
    if flags.dry_run:
        tell(f"would push {len(content.blobs)} blobs with {content.size} bytes")
    elif not changed:
        tell("the registry has this image under this tag already")
    if signature:
        tell(f"signed: {signature}")


def _parse_target(image: str, reference: str) -> ImageReference:
    target = ImageReference.parse(reference)
    wanted = "docker" if image.startswith("oci:") else "oras"
    if target.kind != wanted:
        what = "an OCI image" if wanted == "docker" else "a SIF"
        raise BadInputError(f"{reference}: not a reference for {what}", f"Write it as {wanted}://HOST/NAME:TAG.")
    if target.digest:
        raise BadInputError(f"{reference}: the digest follows from the image", "Give only a tag: HOST/NAME:TAG.")
    return target
