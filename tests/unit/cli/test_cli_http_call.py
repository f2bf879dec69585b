"""What an address that does not answer is said to be."""

import socket

import pytest

from penstock.cli.http_call import HttpCaller
from penstock.errors import ReplicaUnreachable


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_closed_port_gets_advice() -> None:
    url = f"http://127.0.0.1:{closed_port()}"
    with pytest.raises(ReplicaUnreachable) as failed:
        HttpCaller().get(url, "/v1/models")
    assert str(failed.value) == (
        f"{url}/v1/models: nothing listens there. Is it started, and is the port right?"
    )


def test_silence_is_said_with_its_time() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(ReplicaUnreachable, match=r"no answer within 0\.1 s"):
            HttpCaller(seconds=0.1).get(url, "/v1/models")


def test_an_unknown_host_is_said() -> None:
    with pytest.raises(ReplicaUnreachable, match="no such host"):
        HttpCaller().get("http://no-such-host.invalid:1", "/v1/models")
