"""A minimal image for testing an engine: a single program of about a hundred bytes that exits at once."""

from __future__ import annotations

import platform
import struct
from pathlib import Path

from hpcmod.errors import LackingError
from hpcmod.image.sif.format import architecture_name

_ADDRESS = 0x400000  # load address of programs on both architectures
_HEADER = struct.Struct("<4s5B7xHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_EXIT = {
    "amd64": (62, bytes.fromhex("b83c000000 31ff 0f05")),  # mov eax, 60; xor edi, edi; syscall
    "arm64": (183, bytes.fromhex("a80b8052 000080d2 010000d4")),  # mov w8, 93; mov x0, 0; svc 0
}
"""ELF machine number and machine code of exit(0), by architecture."""

DOCKERFILE = """\
FROM scratch
COPY --chown=33:33 hpcmod-true /bin/sh
RUN ["/bin/sh"]
"""
"""The owner is not root: packages have such files, and an engine that cannot create them would fail late."""

DEFINITION = """\
Bootstrap: scratch
%files
    hpcmod-true /bin/sh
%post
    true
"""


def true_program(architecture: str) -> bytes:
    """Return a static program that exits with status 0.

    Parameters
    ----------
    architecture
        GOARCH name.

    Raises
    ------
    LackingError
        If the architecture is not supported.
    """
    if architecture not in _EXIT:
        raise LackingError(f"images cannot be built on {architecture}", f"Build on one of {', '.join(_EXIT)}.")
    machine, code = _EXIT[architecture]
    start = _HEADER.size + _SEGMENT.size
    size = start + len(code)
    head = _HEADER.pack(
        b"\x7fELF", *(2, 1, 1, 0, 0), *(2, machine, 1, _ADDRESS + start, _HEADER.size, 0, 0), *(64, 56, 1, 0, 0, 0)
    )
    return head + _SEGMENT.pack(1, 5, 0, _ADDRESS, _ADDRESS, size, size, 0x1000) + code


def write_trial(context: Path) -> None:
    """Write the build context of the test image."""
    (context / "Dockerfile").write_text(DOCKERFILE)
    (context / "definition").write_text(DEFINITION)
    program = context / "hpcmod-true"
    program.write_bytes(true_program(architecture_name(platform.machine())))
    program.chmod(0o755)
