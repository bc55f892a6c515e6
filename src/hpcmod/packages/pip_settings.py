"""Find the files on the host that pip's own settings name, which a container must see to use them."""

from __future__ import annotations

import configparser
import posixpath
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote

from hpcmod.core.errors import HpcmodError
from hpcmod.core.fs.reading import read_file

_READ = ("cert", "client-cert", "find-links", "index-url", "extra-index-url")
"""Settings of pip that may name files which it only reads."""
_OTHERS = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")
"""Variables of other programs that pip reads."""
_LARGEST = 1 << 20  # bytes of a pip.conf


def find_unread() -> list[str]:
    """Return the configuration of the whole host, which may have settings for its own Python only: it is not passed."""
    return [path for path in ("/etc/xdg/pip/pip.conf", "/etc/pip.conf") if Path(path).exists()]


def find_settings(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the paths that pip's variables and the user's configuration name, and this configuration, if they exist."""
    home = environ.get("HOME", "/")
    base = environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    files = [f"{home}/.pip/pip.conf", f"{base}/pip/pip.conf"]
    variables = {f"PIP_{name.upper().replace('-', '_')}" for name in _READ}
    values = [value for name, value in environ.items() if name in variables or name in _OTHERS]
    for file in [*files, environ.get("PIP_CONFIG_FILE", "")]:
        parser = configparser.RawConfigParser()
        try:
            parser.read_string(read_file(file, _LARGEST).decode())
        except (OSError, HpcmodError, configparser.Error, UnicodeDecodeError):  # pip reports those that it cannot read
            continue
        yield file
        values += [value for section in parser.sections() for key, value in parser.items(section) if key in _READ]
    for word in (word for value in values for word in value.split()):
        path = unquote(word.removeprefix("file://"))
        if word.startswith("file://") and posixpath.basename(path.rstrip("/")) == "simple":
            path = posixpath.dirname(path.rstrip("/"))  # the pages of a mirror link to files beside them
        if path.startswith("/") and len(path) > 1 and Path(path).exists():
            yield path
