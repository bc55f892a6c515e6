"""Push a SIF or an OCI image layout to a registry (OCI distribution specification 1.1), and sign it as cosign does."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from hpcmod.core.errors import BadInputError, NotFoundError, VerificationError
from hpcmod.core.fs.checksums import file_sha256
from hpcmod.core.fs.reading import open_regular, read_file
from hpcmod.core.progress import Progress
from hpcmod.core.values.reference import ImageReference
from hpcmod.images.sif.reader import read_sif, squashfs_partition
from hpcmod.images.trust.cosign import ANNOTATION, MEDIA_TYPE, TYPE, import_cryptography
from hpcmod.images.values.oci import MANIFEST_LIMIT, Manifest, OciDescriptor, parse_manifest
from hpcmod.images.web.credentials import USUAL, Access
from hpcmod.images.web.upload import WritableRepository

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_SIF_CONFIG, _SIF_LAYER = "application/vnd.sylabs.sif.config.v1+json", "application/vnd.sylabs.sif.layer.v1.sif"
_IMAGE_CONFIG = "application/vnd.oci.image.config.v1+json"
_DEEPEST = 3  # nested indexes
_KEY_LIMIT = 1 << 20  # bytes


@dataclass(frozen=True)
class Blob:
    """Bytes to push."""

    descriptor: OciDescriptor
    open: Callable[[], BinaryIO]


@dataclass(frozen=True)
class Content:
    """What a tag will mean: blobs and manifests that refer to them, in the order in which they must be pushed."""

    blobs: tuple[Blob, ...]
    manifests: tuple[tuple[str, str, bytes], ...]
    """Media type, digest and text; the last one gets the tag."""

    @property
    def digest(self) -> str:
        """Return the digest that the tag will mean."""
        return self.manifests[-1][1]

    @property
    def size(self) -> int:
        """Return the bytes of all blobs."""
        return sum(blob.descriptor.size for blob in self.blobs)


def read_pushable(source: ImageReference, progress: Progress | None = None) -> Content:
    """Read what to push: a SIF, or a directory with an OCI image layout, which may hold several architectures.

    Raises BadInputError if it is neither, or is damaged.
    """
    if source.kind == "oci":
        return _read_layout(Path(source.path), source.tag)
    if source.kind not in ("path", "name"):
        raise BadInputError(f"{source.canonical}: only a SIF or oci:DIRECTORY can be pushed", "Fetch it first.")
    return _read_sif(Path(source.path or source.text), progress)


def _read_sif(path: Path, progress: Progress | None) -> Content:
    squashfs_partition(read_sif(path))
    sha256 = file_sha256(path, progress)
    layer = OciDescriptor(_SIF_LAYER, f"sha256:{sha256}", path.stat().st_size)
    config = b"{}"
    described = {"mediaType": _SIF_CONFIG, "digest": digest_of(config), "size": len(config)}
    title = {"org.opencontainers.image.title": path.name}
    created = datetime.fromtimestamp(path.stat().st_mtime, timezone.utc)
    manifest = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "artifactType": _SIF_CONFIG,
        "config": described,
        "layers": [{"mediaType": _SIF_LAYER, "digest": layer.digest, "size": layer.size, "annotations": title}],
        "annotations": {"org.opencontainers.image.created": f"{created:%Y-%m-%dT%H:%M:%SZ}"},
    }
    text = json.dumps(manifest).encode()
    empty = Blob(OciDescriptor(_SIF_CONFIG, digest_of(config), len(config)), partial(BytesIO, config))
    return Content((empty, Blob(layer, partial(open_regular, path))), ((_MANIFEST, digest_of(text), text),))


def _read_layout(directory: Path, tag: str) -> Content:
    index = parse_manifest(_read(directory / "index.json", MANIFEST_LIMIT))
    entries = index if isinstance(index, tuple) else ()
    found = [entry for entry in entries if not tag or dict(entry.annotations).get(_REF_NAME) == tag]
    if len(found) != 1:
        named = ", ".join(dict(entry.annotations).get(_REF_NAME, "one without a tag") for entry in entries) or "nothing"
        raise BadInputError(f"{directory}: {len(found)} images match; it has: {named}", "Write oci:DIRECTORY:TAG.")
    blobs: dict[str, Blob] = {}
    manifests = tuple(_walk(directory, found[0], blobs, _DEEPEST))
    return Content(tuple(blobs.values()), manifests)


_REF_NAME = "org.opencontainers.image.ref.name"


def _walk(directory: Path, entry: OciDescriptor, blobs: dict[str, Blob], deep: int) -> Iterator[tuple[str, str, bytes]]:
    """Yield a manifest or index of a layout after those that it refers to, and collect the blobs."""
    text = _read(_blob_path(directory, entry), MANIFEST_LIMIT)
    if digest_of(text) != entry.digest or not deep:
        raise VerificationError(f"{directory}: {entry.digest} is damaged, or nested too deep")
    manifest = parse_manifest(text)
    if isinstance(manifest, Manifest):
        for descriptor in (manifest.config, *manifest.layers):
            path = _blob_path(directory, descriptor)
            if not path.is_file() or path.stat().st_size != descriptor.size:
                raise VerificationError(f"{directory}: {descriptor.digest} is missing or has another size")
            blobs[descriptor.digest] = Blob(descriptor, partial(open_regular, path))
    else:
        for inner in manifest:
            yield from _walk(directory, inner, blobs, deep - 1)
    yield entry.media_type, entry.digest, text


def _blob_path(directory: Path, descriptor: OciDescriptor) -> Path:
    return directory / "blobs" / descriptor.digest.replace(":", "/")


def _read(path: Path, limit: int) -> bytes:
    try:
        return read_file(path, limit)
    except OSError as err:
        raise BadInputError(f"{path}: {err.strerror}", "Give a directory with an OCI image layout.") from err


def digest_of(content: bytes) -> str:
    """Return the digest of some bytes."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def push(
    content: Content,
    target: ImageReference,
    *,
    force: bool = False,
    access: Access = USUAL,
    progress: Progress | None = None,
) -> bool:
    """Push to a repository under the tag of a reference; return whether the tag changed.

    Blobs that the repository has are not sent again. The tag is set last.

    Raises BadInputError if the tag means another image, unless `force`, and HpcmodError if the registry refuses or
    fails.
    """
    with _open(target, access) as repository:
        old = _find_digest(repository, target.tag)
        if old == content.digest:
            return False
        if old and not force:
            raise BadInputError(f"{target.canonical} is another image, {old}", "Choose another tag, or use --force.")
        _send_blobs(repository, content, progress)
        for media_type, digest, text in content.manifests[:-1]:
            repository.put_manifest(digest, media_type, text)
        media_type, _, text = content.manifests[-1]
        repository.put_manifest(target.tag, media_type, text)
    return True


def _send_blobs(repository: WritableRepository, content: Content, progress: Progress | None) -> None:
    done = 0
    for blob in content.blobs:
        descriptor = blob.descriptor
        if not repository.has_blob(descriptor.digest):
            repository.upload(
                descriptor.digest, descriptor.size, blob.open, partial(_count, progress, done, content.size)
            )
        done += descriptor.size


def _count(progress: Progress | None, before: int, total: int, sent: int) -> None:
    if progress:
        progress(before + sent, total)


@contextmanager
def _open(target: ImageReference, access: Access) -> Iterator[WritableRepository]:
    with closing(access.session_factory()) as session:
        yield WritableRepository(target, session, access)


def _find_digest(repository: WritableRepository, tag: str) -> str:
    try:
        return repository.manifest(tag)[0]
    except NotFoundError:
        return ""


def sign(target: ImageReference, digest: str, key: Path, *, access: Access = USUAL) -> str:
    """Sign an image in a registry with an ECDSA key, and return the tag of its signatures.

    A signature is added to those that it has.

    Raises BadInputError if the key is not an unencrypted ECDSA private key in PEM, and HpcmodError if the registry
    refuses or fails.
    """
    signer = _load_key(key)
    name = f"{target.registry}/{target.repository}"
    critical = {"identity": {"docker-reference": name}, "image": {"docker-manifest-digest": digest}, "type": TYPE}
    text = json.dumps({"critical": critical, "optional": None}).encode()
    tag = f"{digest.replace(':', '-')}.sig"
    with _open(target, access) as repository:
        layers = _find_signatures(repository, tag)
        annotations = {ANNOTATION: base64.b64encode(signer(text)).decode()}
        layer = {"mediaType": MEDIA_TYPE, "digest": digest_of(text), "size": len(text), "annotations": annotations}
        layers = [*layers, layer]
        rootfs = {"type": "layers", "diff_ids": [layer["digest"] for layer in layers]}
        config = json.dumps({"architecture": "", "os": "", "config": {}, "rootfs": rootfs}).encode()
        for content in (text, config):
            repository.upload(digest_of(content), len(content), partial(BytesIO, content))
        described = {"mediaType": _IMAGE_CONFIG, "digest": digest_of(config), "size": len(config)}
        manifest = {"schemaVersion": 2, "mediaType": _MANIFEST, "config": described, "layers": layers}
        repository.put_manifest(tag, _MANIFEST, json.dumps(manifest).encode())
    return tag


def _find_signatures(repository: WritableRepository, tag: str) -> list[dict[str, Any]]:
    """Return the signatures that an image has, as they are in their manifest."""
    try:
        _, text = repository.manifest(tag)
    except NotFoundError:
        return []
    parse_manifest(text)
    return list(json.loads(text)["layers"])


def _load_key(path: Path) -> Callable[[bytes], bytes]:
    """Return a function that signs with a private key."""
    ec = import_cryptography("hazmat.primitives.asymmetric.ec")
    hashes = import_cryptography("hazmat.primitives.hashes")
    serialization = import_cryptography("hazmat.primitives.serialization")
    cure = "Make one: openssl ecparam -genkey -name prime256v1 -noout -out KEY. With cosign's own key: cosign sign."
    try:
        key = serialization.load_pem_private_key(read_file(path, _KEY_LIMIT), password=None)
    except OSError as err:
        raise BadInputError(f"{path}: the key cannot be read: {err.strerror}") from err
    except (ValueError, TypeError) as err:  # TypeError: it is encrypted
        raise BadInputError(f"{path}: not an unencrypted private key in PEM", cure) from err
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise BadInputError(f"{path}: not an ECDSA key, which is what cosign uses", cure)
    return lambda text: bytes(key.sign(text, ec.ECDSA(hashes.SHA256())))
