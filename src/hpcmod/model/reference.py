"""What a user names an image by: a path, a bare file name or an address; and which addresses may be fetched from."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote, urlsplit

from hpcmod.errors import BadInputError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://|(docker-archive|docker-daemon|oci-archive|oci|dir|file):")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True)
class ImageReference:
    """A reference to an image; make one with `parse`. Its text is what the user typed."""

    kind: str
    """`path` (has a slash), `name` (a bare file name, to be looked up in several places) or `url` (https or http)."""
    text: str
    file_name: str = field(compare=False)
    """Last part of the path or of the address."""

    @classmethod
    def parse(cls, text: str) -> ImageReference:
        """Turn what a user typed into a reference.

        Raises
        ------
        BadInputError
            If it names no file, or is of a kind that is not supported yet.
        """
        if not text.strip() or _CONTROL.search(text):
            raise BadInputError(f"image {text!r}: expected a file name, a path, or an https address of a .sif file")
        scheme = _SCHEME.match(text)
        if scheme is None:
            kind, path = ("path" if "/" in text else "name"), text
        elif (scheme.group(1) or "").lower() in ("https", "http"):
            kind, path = "url", unquote(check_address(text, allow_http=True).path)
        else:
            raise _unsupported(text, scheme.group(1) or scheme.group(2))
        file_name = path.rpartition("/")[2]
        if file_name in ("", ".", "..") or _CONTROL.search(file_name):
            raise BadInputError(f"image {text!r}: names no file", "Add the name of the .sif file.")
        return cls(kind, text, file_name)

    def __str__(self) -> str:
        return self.text


def redact(url: str) -> str:
    """Give an address for a message: without user, password and query, any of which may be a key."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "an address that cannot be read"
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}" + ("?..." if parts.query else "")


def check_address(url: str, *, allow_http: bool = False) -> SplitResult:
    """Check that something may be fetched from an address, and split it.

    Plain http is refused, except from this machine itself or where `allow_http` says so.

    Raises
    ------
    BadInputError
        If it is no such address.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as err:
        raise BadInputError("the address cannot be read", "Write it as https://HOST/PATH/NAME.sif.") from err
    if parts.scheme not in ("https", "http") or not host:
        raise BadInputError(f"{redact(url)}: expected an https address", "Write it as https://HOST/PATH/NAME.sif.")
    if parts.scheme == "http" and not (allow_http or _is_loopback(host)):
        raise BadInputError(f"{redact(url)}: plain http, which anyone on the way can change", "Use https.")
    return parts


def split_credentials(url: str) -> tuple[str, tuple[str, str] | None]:
    """Split an address into one without user and password, and these."""
    parts = urlsplit(url)
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    return bare, (unquote(parts.username), unquote(parts.password or "")) if parts.username else None


def origin(url: str) -> tuple[str, str | None, int]:
    """Give scheme, host and port: credentials for one origin are shown to no other."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _unsupported(text: str, scheme: str) -> BadInputError:
    if scheme.lower() == "file":
        return BadInputError(f"image {text!r}: file addresses are not supported", "Give the path of the file instead.")
    verb = "pull" if "://" in text else "build"
    return BadInputError(
        f"image {text!r}: {scheme} references are not supported yet",
        f"Get a file first, then name that: apptainer {verb} NAME.sif {text}",
    )
