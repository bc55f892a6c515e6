"""The private directory of a Jupyter server, which nodes share: its program, its token and its log."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from hpcmod.core.fs.reading import read_text
from hpcmod.core.fs.removal import remove_path
from hpcmod.core.fs.replacing import scratch
from hpcmod.core.fs.temporary import clear_leftovers
from hpcmod.core.fs.tree import write_file
from hpcmod.machine import state_directory
from hpcmod.notebooks.values.server import SERVER, Server, parse_server

_LIMIT = 1 << 20  # bytes read of a file


@dataclass(frozen=True)
class Session:
    """The private directory of one server: its program, its token, its log, and the file that says where it listens."""

    directory: Path
    token: str

    @property
    def program(self) -> Path:
        """Return the program that starts the server."""
        return self.directory / "server.py"

    @property
    def log(self) -> Path:
        """Return the log of a job's server."""
        return self.directory / "server.log"

    def read_log(self) -> list[str]:
        """Return the lines of the log; none if there is no log."""
        try:
            return read_text(self.log, _LIMIT, errors="replace").splitlines()
        except OSError:
            return []

    def find_server(self) -> Server | None:
        """Return where the server listens; None until it runs."""
        for path in sorted((self.directory / "runtime").glob("*server-*.json")):
            with suppress(OSError):
                server = parse_server(read_text(path, _LIMIT, errors="replace"))
                if server:
                    return server
        return None


@contextmanager
def open_session(*, keep: bool, here: bool) -> Iterator[Session]:
    """Create the directory of a server in the user's home, which nodes share; remove it at the end.

    `keep`: If True, create nothing: for a dry run.
    `here`: Whether the server ends with this process. Then directories that killed ones left are removed, too; those of
        jobs are not, because their servers run on.
    """
    parent = state_directory(os.environ) / "jupyter"
    if keep:
        yield Session(parent / "session-%j", "")
        return
    parent.mkdir(parents=True, exist_ok=True)
    if here:
        clear_leftovers(parent, "session")
        with scratch(parent / "session") as made:
            yield _fill(Path(os.path.realpath(made.directory)))
        return
    directory = Path(tempfile.mkdtemp(prefix="session-", dir=parent))
    try:
        yield _fill(directory)
    finally:
        remove_path(directory)


def _fill(directory: Path) -> Session:
    session = Session(directory, secrets.token_hex(24))
    (directory / "runtime").mkdir(mode=0o700)
    write_file(directory / "token", session.token, mode=0o600)
    write_file(session.program, SERVER, mode=0o600)
    return session
