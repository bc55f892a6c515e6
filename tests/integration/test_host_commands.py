"""The host command helper refuses other users, whose user IDs are real to the kernel, as in a shared /tmp."""

from __future__ import annotations

import pytest

from tests.host_commands import started
from tests.users import Users

pytestmark = pytest.mark.stack

CONNECT = """
import socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
print(connection.recv(4096).decode())
"""


def test_another_user_is_refused_even_with_access_to_the_socket(users: Users) -> None:
    top = users.make_directory("jobs", owner="alice", mode=0o755)
    with started(top) as helper:
        place = helper.directory / "socket"
        closed = users.run("mallory", "/usr/bin/python3", "-c", CONNECT, place, check=False)
        assert "PermissionError" in closed.stderr
        place.chmod(0o777)
        helper.directory.chmod(0o755)
        opened = users.run("mallory", "/usr/bin/python3", "-c", CONNECT, place)
        assert opened.stdout.strip() == '{"refused": "the request is from another user"}'
        assert helper.request() == {"exit": 0}
