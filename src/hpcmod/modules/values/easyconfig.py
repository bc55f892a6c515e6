"""The content of an easyconfig for a container module, as text/easyconfig.py renders it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Union

from hpcmod.core.errors import BadInputError
from hpcmod.modules.values.spec import Commands

ParameterValue = Union[str, Sequence["ParameterValue"], Mapping[str, "ParameterValue"]]

_LONGEST_NAME = 200  # characters in a file name: file systems allow 255, and temporary names are longer
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")


class Templated(str):
    """A string in which EasyBuild fills in its templates; other strings are taken literally."""

    __slots__ = ()


class SifOrigin(NamedTuple):
    """Where to get a SIF that is given by file name."""

    urls: tuple[str, ...] = ()
    """The parameter source_urls."""
    instructions: str = ""
    """The parameter download_instructions: what to do if the image is not found."""


_NO_ORIGIN = SifOrigin()


@dataclass(frozen=True)
class EasyconfigText:
    """Content of an easyconfig; all strings may be hostile, because they are written as data."""

    name: str
    version: str
    image: str
    """A reference (`docker://...@sha256:...`, an https address, a path), or the file name of the SIF."""
    description: str
    versionsuffix: str = ""
    """Including its dash, e.g. -rocm-6.2.4-singularity."""
    homepage: str = ""
    sif: SifOrigin = _NO_ORIGIN
    checksum: str = ""
    """The sha256 of the SIF; empty if not known."""
    wrapped_commands: Commands | None = None
    """None: the default commands that the image has; empty: no commands."""
    environment: tuple[tuple[str, str], ...] = ()
    """Variables of the container."""
    bind_paths: tuple[str, ...] = ()
    """Binds in addition to the site's, `source[:destination[:options]]`."""
    netstack: str = ""
    """Mode of the host's network libraries; empty: as the site profile says."""
    parameters: tuple[tuple[str, ParameterValue], ...] = ()
    """Other parameters of EasyBuild, e.g. docurls."""
    moduleclass: str = "ai"
    comments: tuple[str, ...] = ()
    """Comments at the top, each on a line of its own, or on several if it is long."""

    def __post_init__(self) -> None:
        """Check values that become part of file and module names."""
        for what, text in (("name", self.name), ("version", self.version)):
            if not _PLAIN.fullmatch(text):
                raise _bad(what, text)
        if not re.fullmatch(r"[A-Za-z0-9_.+-]*", self.versionsuffix):
            raise _bad("versionsuffix", self.versionsuffix)
        if len(self.file_name) > _LONGEST_NAME:
            raise BadInputError(
                f"{self.file_name[:80]}...: file name of {len(self.file_name)} characters is too long", "Shorten it."
            )
        if self.checksum and not re.fullmatch("[0-9a-f]{64}", self.checksum):
            raise BadInputError(f"checksum: {self.checksum!r} is not a valid sha256", "Give 64 hexadecimal digits.")

    @property
    def file_name(self) -> str:
        """Return the file name, by EasyBuild's rule for the SYSTEM toolchain."""
        return f"{self.name}-{self.version}{self.versionsuffix}.eb"

    @property
    def path(self) -> str:
        """Return the path below a robot path, e.g. p/PyTorch/PyTorch-2.7.1.eb."""
        letter = self.name[0].lower()
        return f"{letter if letter.isalpha() else '0'}/{self.name}/{self.file_name}"

    @property
    def module(self) -> str:
        """Return the name of the module that it installs."""
        return f"{self.name}/{self.version}{self.versionsuffix}"


def _bad(what: str, text: str) -> BadInputError:
    return BadInputError(
        f"{what}: {text[:80]!r} is not valid in a module name",
        "Use letters, digits, _ . + and -; do not start with . + or -.",
    )
