"""Normalize image sources, so that trust rules match what a reference means and not how it is typed."""

from __future__ import annotations

import ipaddress
import posixpath
import re
from urllib.parse import unquote_to_bytes

from hpcmod.core.errors import UntrustedError

_DEFAULT_PORTS = {"docker": 443, "oras": 443, "https": 443, "http": 80}
_DOCKER_HUB = ("docker.io", "index.docker.io", "registry-1.docker.io")
_LOCAL = re.compile(r"(docker-archive|oci-archive|oci):(?://(?=/))?(.*)", re.DOTALL)
_AMBIGUOUS = re.compile(r"[/\\\x00]")  # in a decoded segment: some servers treat these as the end of the segment


def normalize(text: str) -> str:
    """Return the normalized form of a canonical reference, an address or a path.

    Scheme and host are in lower case, the default port is left out, other ports have no leading zeros, percent escapes
    are decoded, dots and double slashes of paths are resolved, and user, password and query are dropped. The result is
    for comparison only. Patterns of trust rules are normalized in the same way; `*` is kept.

    Raises UntrustedError if servers interpret an address differently, so that no rule can decide.
    """
    if text.startswith("/"):
        return clean_path(text)
    local = _LOCAL.fullmatch(text)
    if local:
        path, colon, tag = local[2].partition(":")
        return f"{local[1]}:{clean_path(path) if path.startswith('/') else path}{colon}{tag}"
    scheme, separator, rest = text.partition("://")
    if not separator:
        return text
    return _address(scheme.lower(), rest)


def clean_path(path: str) -> str:
    """Return an absolute path without dots and double slashes; links are not resolved."""
    return posixpath.normpath("/" + path.lstrip("/")) + ("/" if path.endswith("/") and path.strip("/") else "")


def _address(scheme: str, rest: str) -> str:
    authority, slash, path = rest.partition("/")
    if scheme not in _DEFAULT_PORTS:
        return f"{scheme}://{rest}"
    authority = _authority(scheme, authority)
    if scheme in ("http", "https"):
        return f"{scheme}://{authority}{_url_path(slash + path)}"
    if authority in _DOCKER_HUB:
        authority = "docker.io"
        path = path if "/" in path or "*" in path or not path else f"library/{path}"
    return f"{scheme}://{authority}{slash}{path}"


def _authority(scheme: str, text: str) -> str:
    if "\\" in text:  # some programs end the host here, others use what follows the last @
        raise _ambiguous(text, "a backslash in the host name")
    host, port = _split_port(text.rpartition("@")[2])
    if "%" in host:
        raise _ambiguous(host, "an escape or a zone in the host name")
    if port.isascii() and port.isdigit():
        port = "" if int(port) == _DEFAULT_PORTS[scheme] else str(int(port))
    return _host(host) + (port and f":{port}")


def _split_port(text: str) -> tuple[str, str]:
    if text.startswith("["):
        host, _, port = text.partition("]")
        return f"{host}]", port.removeprefix(":")
    host, _, port = text.partition(":")
    return host, port


def _host(text: str) -> str:
    if text.startswith("["):
        try:
            address = ipaddress.IPv6Address(text[1:-1])
        except ValueError:
            return text.lower()
        return str(address.ipv4_mapped) if address.ipv4_mapped else f"[{address}]"
    host = text.lower()
    if not host.isascii():
        try:
            host = host.encode("idna").decode()
        except UnicodeError as err:
            raise _ambiguous(text, "the host name is not valid") from err
    return host.removesuffix(".")


def is_odd_ipv4(host: str) -> bool:
    """Return whether a host is an IPv4 address in an unusual form (127.1, 0x7f000001, 127.0.0.01), as C accepts it."""
    if not re.fullmatch(r"0x[0-9a-f]*|[0-9]+", host.lower().removesuffix(".").rpartition(".")[2]):
        return False
    try:
        ipaddress.IPv4Address(host.removesuffix("."))
    except ValueError:
        return True
    return False


def _url_path(text: str) -> str:
    """Return the decoded, resolved path of an address; empty if it has no path."""
    path = re.split(r"[?#]", text, maxsplit=1)[0]
    segments: list[str] = []
    for raw in path.split("/")[1:]:
        segment = unquote_to_bytes(raw).decode("utf-8", "surrogateescape")
        if _AMBIGUOUS.search(segment) or ";" in segment or "%25" in raw:  # some servers decode twice
            raise _ambiguous(path, f"servers interpret {raw!r} differently")
        if segment == "..":
            del segments[-1:]
        elif segment not in ("", "."):
            segments.append(segment)
    end = "/" if path.endswith(("/", "/.", "/..")) and segments else ""
    return "/" + "/".join(segments) + end if path else ""


def _ambiguous(text: str, why: str) -> UntrustedError:
    return UntrustedError(
        f"{text!r} cannot be checked against the trust rules: {why}",
        "Write the address without escaped slashes and percent signs, backslashes and semicolons.",
    )
