"""A user's conda packages: the real solver, a local channel, real containers."""

from __future__ import annotations

from base64 import b64encode
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.conda_channel import PLACEHOLDER, CondaFile, index_channel, make_conda
from tests.integration.conftest import Loader
from tests.integration.test_user_packages import Mine, only_lmod
from tests.walkthroughs import blocks
from tests.wheels import make_wheel

pytestmark = pytest.mark.stack

PROGRAM = f"#!/bin/sh\n. {PLACEHOLDER}/share/greet/words\necho $WORD from {PLACEHOLDER}\n"
VENV = "/user-software/venv/toy"


@pytest.fixture
def mine(loader: Loader, tmp_path: Path) -> Mine:
    """A user with a channel that has two versions of a program, which depends on a data package."""
    make_wheel(tmp_path / "wheels", "einops", "0.8.1")
    channel = tmp_path / "channel"
    make_conda(channel, "greet-data", "1", {"share/greet/words": "WORD=hello\n"}, kind="tar.bz2")
    for version in ("1.0", "2.0"):
        program = CondaFile(f"{PROGRAM}echo {version}\n".encode(), 0o755)
        make_conda(channel, "greet", version, {"bin/greet": program}, depends=["greet-data", "__glibc >=2.17"])
    index_channel(channel)
    return Mine(loader, tmp_path / "wheels")


def serve(directory: Path, login: str) -> ThreadingHTTPServer:
    """Serve a channel on a local port, in a thread, to clients with this login."""

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.headers.get("Authorization") == f"Basic {b64encode(login.encode()).decode()}":
                super().do_GET()
            else:
                self.send_response(401)
                self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(directory)))
    Thread(target=server.serve_forever, daemon=True).start()
    return server


@only_lmod
def test_the_page_on_conda_packages_works_as_written(mine: Mine, tmp_path: Path) -> None:
    """Run all commands in one shell; Toy is the container, samtools is a script, and the channel needs a login."""
    channel = tmp_path / "channel"
    make_conda(
        channel, "samtools", "1.19", {"bin/samtools": CondaFile(PROGRAM.encode(), 0o755)}, depends=["greet-data"]
    )
    post = {"bin/.noisy-post-link.sh": CondaFile(b"#!/bin/sh\ntouch ran\n", 0o755)}
    make_conda(channel, "noisy", "1", post)
    index_channel(channel)
    server = serve(channel, "alice:s3cret")
    try:
        url = f"http://127.0.0.1:{server.server_port}"
        (mine.home / ".netrc").write_text("machine 127.0.0.1 login alice password s3cret\n")
        (mine.home / "environment.yml").write_text(
            f"channels: ['{url}']\ndependencies: [python=3.11, greet=1, noisy, pip, {{pip: [einops]}}]\n"
        )
        lines = [line.strip()[2:] for block in blocks("conda-packages", "console") for line in block.splitlines()]
        commands = (
            "\n".join(lines)
            .replace("PyTorch", "Toy")
            .replace("--channel bioconda --channel conda-forge", f"--channel {url}")
        )
        done = mine.loader(
            f'set -e; cd; hpcmod() {{ {mine.argv("")[0]} "$@"; }}\n{commands}\nsingularity exec $SIF greet',
            **{name: mine.environment()[name] for name in ("EASYBUILD_PREFIX", "HPCMOD_SITE")},
            PIP_FIND_LINKS=str(mine.wheels),
            PIP_NO_INDEX="1",
        )
    finally:
        server.shutdown()
        server.server_close()
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout.splitlines()
    assert said[:2] == ["greet-data: added 1 (conda)", "samtools: added 1.19 (conda)"]
    assert f"hello from {VENV}" in said and said[-1] == "1.0"
    assert "noisy: its scripts were not run: bin/.noisy-post-link.sh" in " ".join(done.stderr.split())
    assert not list(mine.home.rglob("ran"))
    kept = [path.read_text() for path in (*mine.packages.rglob("*.json"), mine.home / "pylock.toml")]
    assert kept and not [text for text in kept if "s3cret" in text]
