from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hpcmod.notebooks.values.server import SERVER, Server, make_ssh_command, make_url, parse_server

WORD = "abc"


def test_a_server_on_a_node_is_reached_through_the_login_node() -> None:
    server = parse_server(json.dumps({"hostname": "10.1.2.3", "port": 8899, "token": "x"}))
    assert server == Server("10.1.2.3", 8899)
    assert " ".join(make_ssh_command(server, node="nid001", login="alice@login")) == (
        "ssh -N -L 8899:nid001:8899 alice@login"
    )
    assert make_ssh_command(server, node="", login="a@b")[3] == "8899:10.1.2.3:8899"
    assert make_url(server, token=WORD, kind="lab") == "http://localhost:8899/lab?token=abc"
    assert make_url(server, token=WORD, kind="notebook") == "http://localhost:8899/tree?token=abc"


def test_a_server_on_the_loopback_interface_is_reached_on_its_own_node() -> None:
    assert make_ssh_command(Server("127.0.0.1", 1), node="nid001", login="a@b")[3] == "1:localhost:1"


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"hostname": "a", "port": null}'])
def test_an_incomplete_file_is_not_a_server(text: str) -> None:
    assert parse_server(text) is None


def test_the_program_starts_a_server_whose_token_is_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "jupyterlab.py").write_text("import os, sys; print(sys.argv[1:], os.environ['JUPYTER_TOKEN_FILE'])")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, tmp_path / "server.py", "jupyterlab", "local"],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "'--ip=127.0.0.1', '--port=" in done.stdout
    assert done.stdout.strip().endswith(str(tmp_path / "token"))


def test_a_server_ends_with_its_stdin_and_imports_nothing_from_the_working_directory(tmp_path: Path) -> None:
    (tmp_path / "ours").mkdir()
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "ours" / "jupyterlab.py").write_text("import time; print('ours', flush=True); time.sleep(60)")
    here = tmp_path / "here"
    here.mkdir()
    (here / "jupyterlab.py").write_text("print('planted')")
    words = [sys.executable, str(tmp_path / "server.py"), "jupyterlab", "local", "tied"]
    environ = {**os.environ, "PYTHONPATH": str(tmp_path / "ours")}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, cwd=here, env=environ, **pipes) as server:  # type: ignore[call-overload]
        assert server.stdout.readline() == "ours\n"
        server.stdin.close()
        assert server.wait(timeout=10) == -15


def test_an_interrupt_prints_no_traceback(tmp_path: Path) -> None:
    """Ctrl-C in a terminal reaches the server and the process that watches its stdin."""
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "jupyterlab.py").write_text(
        "import signal, time; signal.signal(2, lambda *_: exit(0)); print('ours', flush=True); time.sleep(60)"
    )
    server = subprocess.Popen(
        [sys.executable, str(tmp_path / "server.py"), "jupyterlab", "local", "tied"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert server.stdout and server.stdout.readline() == "ours\n"
    os.killpg(server.pid, signal.SIGINT)
    assert server.communicate(timeout=60) == ("", "")
