"""What a user names an image by: a path, a bare file name, or an address on the web."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

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
            kind, path = "url", _url_path(text)
        else:
            raise _unsupported(text, scheme.group(1) or scheme.group(2))
        file_name = path.rpartition("/")[2]
        if file_name in ("", ".", "..") or _CONTROL.search(file_name):
            raise BadInputError(f"image {text!r}: names no file", "Add the name of the .sif file.")
        return cls(kind, text, file_name)

    def __str__(self) -> str:
        return self.text


def _url_path(text: str) -> str:
    try:
        address = urlsplit(text)
        host = address.hostname
    except ValueError as err:
        raise BadInputError(f"image {text!r}: not an address: {err}") from err
    if not host:
        raise BadInputError(f"image {text!r}: has no host", "Write it as https://HOST/PATH/NAME.sif.")
    return unquote(address.path)


def _unsupported(text: str, scheme: str) -> BadInputError:
    if scheme.lower() == "file":
        return BadInputError(f"image {text!r}: file addresses are not supported", "Give the path of the file instead.")
    verb = "pull" if "://" in text else "build"
    return BadInputError(
        f"image {text!r}: {scheme} references are not supported yet",
        f"Get a file first, then name that: apptainer {verb} NAME.sif {text}",
    )
