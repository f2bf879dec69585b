"""A replica is judged by its own server, not by whoever else holds its port."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from penstock.fleet.processes import group_listens_on

SERVER = """
import socket, sys
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
sys.stdin.read()
"""


@pytest.fixture
def server() -> Iterator[tuple[int, int]]:
    """A process group of its own, and the port that it listens on."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        yield process.pid, int(process.stdout.readline())


def test_a_group_owns_the_port_that_it_listens_on(server: tuple[int, int]) -> None:
    group, port = server
    assert group_listens_on(group, port)


def test_another_group_does_not_own_it(server: tuple[int, int]) -> None:
    _, port = server
    assert not group_listens_on(os.getpgrp(), port)


def test_a_connection_to_the_port_is_not_listening(server: tuple[int, int]) -> None:
    _, port = server
    with socket.create_connection(("127.0.0.1", port)):
        assert not group_listens_on(os.getpgrp(), port)


def test_nobody_owns_a_port_on_which_nobody_listens() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        assert not group_listens_on(os.getpgrp(), held.getsockname()[1])
