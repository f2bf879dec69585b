"""PENSTOCK_URL, PENSTOCK_KEY and PENSTOCK_ACCOUNT are for client commands and for no others."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import msgspec
import pytest
from tests.unit.cli.conftest import Penstock

from penstock.cli.bench.order import read_addresses
from penstock.cli.exit_codes import CommandFailed
from penstock.cli.running_gateway import gateway_url, read_secret
from penstock.cli.up.state import Credentials, UpState
from penstock.config import Config, client_defaults, load
from penstock.wire.resources.routing import RoutingAnswer

VARIABLES = {
    "PENSTOCK_URL": "http://10.0.0.5:8787",
    "PENSTOCK_KEY": "psk_environment",
    "PENSTOCK_ACCOUNT": "acme",
}
ANSWER = RoutingAnswer(
    model="m",
    session="",
    prompt_tokens=5,
    replica="r1",
    why="least",
    reason="It costs least.",
    last_replica="",
    session_moved="",
    cache_break="",
    peers="alone",
    near_margin=0.03,
    candidates=[],
)


class Asked(HTTPServer):
    """Stands for a gateway: answers every POST with an explanation, and keeps what was asked."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str]] = []
        super().__init__(("127.0.0.1", 0), _Answering)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Answering(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Asked)
        self.rfile.read(int(self.headers["content-length"]))
        self.server.requests.append((self.path, self.headers["authorization"]))
        body = msgspec.json.encode(ANSWER)
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        del arguments


@pytest.fixture
def gateway() -> Iterator[Asked]:
    with Asked() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def in_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)


def test_they_are_no_settings() -> None:
    loaded = load(environ=VARIABLES)
    assert (loaded.config, loaded.sources) == (Config(), {})
    defaults = client_defaults(VARIABLES)
    assert (defaults.url, defaults.key, defaults.account) == tuple(VARIABLES.values())
    assert client_defaults({}) == type(defaults)()


@pytest.mark.usefixtures("in_environment")
def test_a_command_that_is_no_client_ignores_them(penstock: Penstock) -> None:
    for command in (("models", "list"), ("config", "show")):
        done = penstock(*command)
        assert done.exit_code == 0, done.output
        assert "psk_environment" not in done.output


def test_a_client_command_takes_them_where_its_options_say_nothing(
    penstock: Penstock, gateway: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (VARIABLES | {"PENSTOCK_URL": gateway.url}).items():
        monkeypatch.setenv(name, value)
    (tmp_path / "request.json").write_text("{}")
    (tmp_path / "key").write_text("psk_file\n")
    explain = ("route", "explain", "request.json")
    assert penstock(*explain).exit_code == 0
    assert penstock(*explain, "--key-file", "key", "--account", "other").exit_code == 0
    path = "/v1/routing/explain?account="
    assert gateway.requests == [
        (f"{path}acme", "Bearer psk_environment"),
        (f"{path}other", "Bearer psk_file"),
    ]


@pytest.mark.usefixtures("in_environment")
def test_options_win_over_them_and_they_win_over_the_state_folder(tmp_path: Path) -> None:
    UpState(tmp_path).write_credentials(Credentials("a", "k", "psk_state"))
    (tmp_path / "key").write_text("psk_file\n")
    assert gateway_url("http://given", Config(), tmp_path) == "http://given"
    assert gateway_url("", Config(), tmp_path) == VARIABLES["PENSTOCK_URL"]
    assert read_secret(tmp_path / "key", tmp_path) == "psk_file"
    assert read_secret(None, tmp_path) == "psk_environment"


@pytest.mark.usefixtures("in_environment")
def test_bench_sends_the_key_to_the_gateway_of_the_environment_alone() -> None:
    assert read_addresses(None) == ((f"{VARIABLES['PENSTOCK_URL']}/v1",), "psk_environment")
    assert read_addresses(["http://else.example"]) == (("http://else.example/v1",), "")


def test_bench_without_any_address_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PENSTOCK_URL", raising=False)
    with pytest.raises(CommandFailed, match="PENSTOCK_URL"):
        read_addresses(None)
