"""Image references: files, addresses and registry names; and the rules for addresses that may be fetched."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote, urlsplit

from hpcmod.core.errors import BadInputError
from hpcmod.core.values.subject import is_odd_ipv4

OCI_KINDS = ("docker", "docker-archive", "oci-archive", "oci")
"""Kinds that refer to an OCI image, which is converted to a SIF; all others refer to a SIF."""

LOCAL_KINDS = ("path", "name")
"""Kinds that refer to a SIF on disk."""

TRANSPORT = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://|(docker-archive|docker-daemon|oci-archive|oci|dir|file):")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_LONGEST = 8192  # characters
_LONGEST_NAME = 255  # maximum length of registry and repository together, according to the specification

# The grammar of the OCI distribution specification 1.1 ("Pulling manifests") and of github.com/distribution/reference.
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_REGISTRY = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9A-Fa-f:.]+\])(?::[0-9]{{1,5}})?")
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REPOSITORY = re.compile(rf"{_PART}(?:/{_PART})*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_PASSWORD = re.compile(r"//[^@]*@(?!sha256:)")


@dataclass(frozen=True)
class ImageReference:
    """A reference to an image, created with `parse`; keeps the user's spelling."""

    kind: str
    """`path` (contains a slash), `name` (a bare file name, searched in several directories), `url` (https or http),
    or the transport: `docker`, `oras`, `docker-archive`, `oci-archive`, `oci`."""
    text: str
    file_name: str = field(compare=False)
    """Last part of the path or address; for other kinds a generated SIF name, always the same."""
    registry: str = ""
    """For `docker` and `oras`: host, and port if given; always `docker.io` for Docker Hub."""
    repository: str = ""
    """For `docker` and `oras`: without registry, with `library/` on Docker Hub."""
    tag: str = ""
    """For `docker` and `oras`: `latest` if neither tag nor digest is given. For local layouts: the image's tag."""
    digest: str = ""
    """`sha256:` and 64 hexadecimal digits, which the content must have."""
    path: str = ""
    """Path, for kinds that are on disk."""

    @classmethod
    def parse(cls, text: str) -> ImageReference:
        """Parse a reference typed by a user.

        Raises BadInputError if it does not name an image, or leaves out the registry.
        """
        if not text.strip() or _CONTROL.search(text) or len(text) > _LONGEST:
            raise _bad(text, "expected a file name, a path, a URL, or docker://REGISTRY/NAME:TAG")
        scheme = TRANSPORT.match(text)
        if scheme is None:
            return _parse_path(text)
        transport = (scheme.group(1) or scheme.group(2)).lower()
        if transport not in _PARSERS:
            raise _unsupported(text, transport)
        return _PARSERS[transport](text, transport, text[scheme.end() :])

    @property
    def canonical(self) -> str:
        """Return the complete reference, without password or query: for records, rules and messages."""
        if self.kind == "url":
            return redact(self.text)
        if self.registry:
            tag, digest = self.tag and f":{self.tag}", self.digest and f"@{self.digest}"
            return f"{self.kind}://{self.registry}/{self.repository}{tag}{digest}"
        if self.kind in OCI_KINDS and self.path:
            return f"{self.kind}:{self.path}" + (self.tag and f":{self.tag}")
        return self.text

    @property
    def pinned(self) -> bool:
        """Return whether the reference has a digest, so that it always means the same bytes."""
        return bool(self.digest)

    def __str__(self) -> str:
        return self.text


def _parse_path(text: str) -> ImageReference:
    name = _checked_name(text, text.rpartition("/")[2])
    if name.endswith(".def"):
        raise _bad(text, "a definition file, not an image", f"Build it: hpcmod build {text}")
    return ImageReference("path" if "/" in text else "name", text, name, path=text)


def _parse_url(text: str, _: str, __: str) -> ImageReference:
    path = unquote(check_address(text, allow_http=True).path)
    return ImageReference("url", text, _checked_name(redact(text), path.rpartition("/")[2]))


def _checked_name(text: str, name: str) -> str:
    if name in ("", ".", "..") or "/" in name or _CONTROL.search(name):
        raise _bad(text, "does not name a file", "Add the name of the .sif file.")
    return name


def _parse_registry(text: str, kind: str, rest: str) -> ImageReference:
    """Parse REGISTRY/REPOSITORY[:TAG][@DIGEST]."""
    host, slash, _ = rest.partition("/")
    if "@" in host and not host.partition("@")[2].startswith("sha256:"):
        raise BadInputError(
            f"image {kind}://...: user or password in front of the host",
            f"Leave it out, and log in with: apptainer registry login docker://{host.rpartition('@')[2]}",
        )
    named, _, digest = rest.partition("@")
    if not slash or not ("." in host or ":" in host or host == "localhost"):
        raise _short(text, kind, rest)
    registry, _, name = named.partition("/")
    repository, _, tag = name.partition(":")
    registry, repository = _expand_docker_hub(registry, repository)
    _check_registry(text, registry, repository)
    _check_version(text, tag, digest, has_tag=":" in name, has_digest="@" in rest)
    tag = tag or ("" if digest else "latest")
    last = _readable(repository.rpartition("/")[2], tag)
    mark = f"sha256-{digest[7:23]}" if digest else _mark(f"{registry}/{repository}:{tag}")
    return ImageReference(kind, text, f"{last}-{mark}.sif", registry, repository, tag, digest)


def _expand_docker_hub(registry: str, repository: str) -> tuple[str, str]:
    host, colon, port = registry.lower().rpartition(":")  # host names are case-insensitive
    registry = f"{host}:{int(port)}" if colon and port.isascii() and port.isdigit() else registry.lower()
    if registry not in ("docker.io", "index.docker.io", "registry-1.docker.io"):
        return registry, repository
    return "docker.io", repository if "/" in repository else f"library/{repository}"


def _check_registry(text: str, registry: str, repository: str) -> None:
    if len(registry) + 1 + len(repository) > _LONGEST_NAME:
        raise _bad(text, f"registry and repository together have more than {_LONGEST_NAME} characters")
    if not _REGISTRY.fullmatch(registry):
        raise _bad(text, f"{registry!r} is not a valid registry host", "Write it as docker://HOST[:PORT]/NAME:TAG.")
    if is_odd_ipv4(registry.rpartition(":")[0] or registry):
        raise _bad(text, f"{registry!r} is not a plain IPv4 address", "Write it as four decimal numbers: 127.0.0.1.")
    if not _REPOSITORY.fullmatch(repository):
        cure = f"Did you mean {repository.lower()}?" if _REPOSITORY.fullmatch(repository.lower()) else ""
        raise _bad(text, f"{repository!r} is not a valid repository name: lower-case letters, digits, . _ -, /", cure)


def _check_version(text: str, tag: str, digest: str, *, has_tag: bool, has_digest: bool) -> None:
    if has_tag and not _TAG.fullmatch(tag):
        raise _bad(
            text, f"{tag!r} is not a valid tag: at most 128 letters, digits, _ . and -, not starting with . or -"
        )
    if has_digest and not _DIGEST.fullmatch(digest):
        raise _bad(
            text,
            f"{digest!r} is not a valid digest",
            "A digest is @sha256: followed by 64 lower-case hexadecimal digits.",
        )


def _short(text: str, kind: str, rest: str) -> BadInputError:
    """Return the error for a name without a registry: which image it means depends on the machine's settings."""
    if kind == "oras":
        return _bad(text, "the registry is missing", "Write it as oras://REGISTRY/NAME:TAG.")
    if not rest.strip("/"):
        return _bad(text, "the image name is missing", "Write it as docker://REGISTRY/NAME:TAG.")
    full = f"docker.io/{rest}" if "/" in rest else f"docker.io/library/{rest}"
    return _bad(text, "the registry is missing, so the image is ambiguous", f"For Docker Hub, write docker://{full}")


def _parse_layout(text: str, kind: str, rest: str) -> ImageReference:
    """Parse PATH[:TAG]; as in other tools that support these kinds, a path must not contain a colon."""
    path, colon, tag = (rest[2:] if rest.startswith("//") else rest).partition(":")
    name = _checked_name(text, path.rstrip("/").rpartition("/")[2])
    if colon and not tag:
        raise _bad(text, "ends in a colon", "Add a tag after the colon, or remove the colon.")
    return ImageReference(kind, text, sif_name(name, tag), tag=tag, path=path)


def sif_name(name: str, tag: str = "") -> str:
    """Return the file name of the SIF of a layout or archive, or of the image with this tag in it."""
    stem = re.sub(r"\.(tar|tgz|tar\.gz)$", "", name) or name
    return f"{_readable(stem, tag)}.sif"


def _readable(name: str, tag: str) -> str:
    """Return the readable part of a file name."""
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", f"{name}-{tag}" if tag else name).lstrip(".-")[:180] or "image"


def _mark(text: str) -> str:
    """Return a suffix that distinguishes the files of two images whose names end alike."""
    import hashlib  # slow to import, and rarely needed

    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:8]


_PARSERS: Mapping[str, Callable[[str, str, str], ImageReference]] = {
    "https": _parse_url,
    "http": _parse_url,
    "docker": _parse_registry,
    "oras": _parse_registry,
    "docker-archive": _parse_layout,
    "oci-archive": _parse_layout,
    "oci": _parse_layout,
}


def is_tag(text: str) -> bool:
    """Return whether a string is a valid tag."""
    return _TAG.fullmatch(text) is not None


def is_digest(text: str) -> bool:
    """Return whether a string is a valid digest."""
    return _DIGEST.fullmatch(text) is not None


def redact(url: str) -> str:
    """Return an address for messages and rules: lower-case host; no user, password or query, which may be secret."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "an invalid address"
    host = parts.netloc.rpartition("@")[2].lower()
    return f"{parts.scheme}://{host}{parts.path}" + ("?..." if parts.query else "")


def check_address(url: str, *, allow_http: bool = False) -> SplitResult:
    """Check that an address may be fetched, and split it.

    Plain http is refused, except from this machine itself or if `allow_http` is set.

    Raises BadInputError if the address is invalid or refused.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as err:
        raise BadInputError("invalid address", "Write it as https://HOST/PATH/NAME.sif.") from err
    if parts.scheme not in ("https", "http") or not host:
        raise BadInputError(f"{redact(url)}: expected an https address", "Write it as https://HOST/PATH/NAME.sif.")
    if is_odd_ipv4(host):
        raise BadInputError(f"{redact(url)}: not a plain IPv4 address", "Write it as four decimal numbers: 127.0.0.1.")
    if parts.scheme == "http" and not (allow_http or is_loopback(host)):
        raise BadInputError(f"{redact(url)}: plain http is not secure", "Use https.")
    return parts


def is_loopback(host: str) -> bool:
    """Return whether a host name or address, without a port, refers to this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _bad(text: str, why: str, cure: str = "") -> BadInputError:
    shown = _PASSWORD.sub("//...@", text)[:200]
    return BadInputError(f"image {shown!r}: {why}", cure)


def _unsupported(text: str, scheme: str) -> BadInputError:
    if scheme in ("file", "dir"):
        return _bad(text, f"{scheme} addresses are not supported", "Give the path of the file instead.")
    if scheme == "library":
        cure = (
            f"Use a registry: oras://HOST/NAME:TAG; or fetch the image with the runtime: apptainer pull FILE.sif {text}"
        )
        return _bad(text, "Sylabs libraries are not supported", cure)
    if scheme == "docker-daemon":
        return _bad(text, "hpcmod does not talk to a daemon", "Save the image: docker save -o FILE.tar NAME")
    return _bad(text, f"{scheme}:// is not supported", f"Supported are a path and {', '.join(_PARSERS)}.")
