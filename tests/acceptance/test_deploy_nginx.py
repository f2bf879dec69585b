"""deploy/nginx/penstock.conf in a real nginx, over TLS, in front of two real gateways."""

import json
import shutil
import ssl
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path

import httpx
import pytest
from tests.acceptance.cli_run import PENSTOCK, Up, free_port, is_alive, until
from tests.acceptance.deploy_tools import ROOT, NginxSite

from penstock.config import environment_for
from penstock.store.embedded import EmbeddedPostgres
from penstock.testing import ScriptedEngine

CONFIGURATION = ROOT / "deploy" / "nginx" / "penstock.conf"
TOKENS = 12
INTERVAL_SECONDS = 0.15


class Proxied:
    """What a client sees: nginx's address and a key. `second` is one of the two gateways."""

    def __init__(
        self, site: NginxSite, key: str, account: str, second: subprocess.Popen[bytes]
    ) -> None:
        self.site = site
        self.account = account
        self.second = second
        context = ssl.create_default_context(cafile=str(site.certificate))
        headers = {"authorization": f"Bearer {key}"}
        address = f"https://127.0.0.1:{site.port}"
        self.client = httpx.Client(
            base_url=address, verify=context, headers=headers, timeout=30, trust_env=False
        )

    def chat(self) -> httpx.Response:
        return self.client.post("/v1/chat/completions", json=_body(TOKENS, 0.0, is_stream=False))

    def gateways_of_log(self) -> set[str]:
        """Return the addresses that nginx says it passed requests on to."""
        return {line.split()[-2] for line in self.site.log.read_text().splitlines()}


@pytest.fixture(scope="module")
def proxied() -> Iterator[Proxied]:
    folder = Path(tempfile.mkdtemp(prefix="penstock-test-"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder)
        engine = stack.enter_context(ScriptedEngine(model="acme/answers", max_model_len=100_000))
        up = Up(folder / "state", "--attach", engine.url, "--json")
        stack.callback(up.close)
        ready = up.ready()
        port, second = stack.enter_context(_second_gateway(up, folder))
        place = folder / "nginx"
        place.mkdir()
        site = NginxSite(place, CONFIGURATION.read_text(), (up.port, port))
        stack.enter_context(_running(site))
        found = Proxied(site, ready["key"], ready["account"], second)
        stack.callback(found.client.close)
        yield found


@contextmanager
def _second_gateway(up: Up, folder: Path) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    port = free_port()
    settings = {
        "store.dsn": EmbeddedPostgres(up.state / "postgres").dsn,
        "ingress.port": port,
        "ingress.metrics_port": 0,
        "metering.journal_folder": str(folder / "journal"),
        "signals.folder": str(up.state / "signals"),
        "catalogue.folder": str(up.state / "models"),
        "catalogue.default_model": up.ready()["model"],
        "store.objects_url": f"file:{up.state}/objects",
        "store.cell_key_file": f"{up.state}/cell.key",
    }
    with subprocess.Popen(
        [*PENSTOCK, "gateway"], env=environment_for(settings), cwd=folder
    ) as gateway:
        try:
            until(lambda: is_alive(port), 30.0)
            yield port, gateway
        finally:
            gateway.terminate()
            gateway.wait(90)


@contextmanager
def _running(site: NginxSite) -> Iterator[None]:
    with subprocess.Popen(site.command) as nginx:
        try:
            until(lambda: _answers(site.plain_port), 10.0)
            yield
        finally:
            nginx.terminate()
            nginx.wait(10)


def _answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/healthz", trust_env=False).status_code == 308
    except httpx.TransportError:
        return False


def _body(tokens: int, interval: float, *, is_stream: bool) -> dict[str, object]:
    script = json.dumps({"tokens": tokens, "interval": interval})
    message = {"role": "user", "content": f"Go on.\n@script {script}"}
    return {"model": "default", "messages": [message], "max_tokens": tokens, "stream": is_stream}


def test_plain_http_is_sent_to_tls(proxied: Proxied) -> None:
    address = f"http://127.0.0.1:{proxied.site.plain_port}/v1/models?a=b"
    answer = httpx.get(address, headers={"host": "inference.example.com"}, trust_env=False)
    assert answer.headers["location"] == "https://inference.example.com/v1/models?a=b"


def test_requests_go_to_both_gateways(proxied: Proxied) -> None:
    answers = [proxied.chat() for _ in range(8)]
    assert [answer.status_code for answer in answers] == [200] * 8
    ids = [answer.headers["x-request-id"] for answer in answers]
    until(lambda: all(one in proxied.site.log.read_text() for one in ids), 5.0)
    assert len(proxied.gateways_of_log()) == 2


def test_events_of_a_stream_arrive_one_by_one(proxied: Proxied) -> None:
    body = _body(TOKENS, INTERVAL_SECONDS, is_stream=True)
    with proxied.client.stream("POST", "/v1/chat/completions", json=body) as answer:
        assert answer.status_code == 200
        lines = answer.iter_lines()
        arrived = [time.monotonic() for line in lines if line.startswith("data: ")]
    pauses = [later - sooner for sooner, later in pairwise(arrived)]
    # Held back, they would come in one piece: a single pause, or none.
    assert sum(pause > INTERVAL_SECONDS / 2 for pause in pauses) >= TOKENS / 2
    assert arrived[-1] - arrived[0] > TOKENS * INTERVAL_SECONDS / 2


def test_client_that_leaves_is_noticed_by_the_gateway(proxied: Proxied) -> None:
    body = _body(2000, 0.05, is_stream=True)
    with proxied.client.stream("POST", "/v1/chat/completions", json=body) as answer:
        request = answer.headers["x-request-id"]
        next(answer.iter_lines())
    path = f"/v1/usage/requests/{request}"
    row = until(lambda: _found(proxied, path), 20.0)
    assert row["output_tokens"] < 2000


def _found(proxied: Proxied, path: str) -> dict[str, int] | None:
    answer = proxied.client.get(path)
    attempts = answer.json()["attempts"] if answer.status_code == 200 else None
    return attempts[-1] if attempts else None


def test_escaped_slash_in_a_path_survives(proxied: Proxied) -> None:
    path = f"/client/v4/accounts/{proxied.account}/ai/run/acme%2Fanswers"
    answer = proxied.client.post(path, json={"messages": [{"role": "user", "content": "Hi"}]})
    assert answer.status_code == 200, answer.text


def test_bodies_pass_up_to_the_gateways_own_limits(proxied: Proxied) -> None:
    long = proxied.client.post("/v1/chat/completions", content=b" " * (33 * 2**20))
    assert long.status_code == 413
    form = {"file": ("input.jsonl", b'{"custom_id": "one"}\n' * 2**21)}
    made = proxied.client.post("/v1/files", data={"purpose": "batch"}, files=form)
    assert made.status_code == 200, made.text
    assert made.json()["bytes"] > 33 * 2**20


def test_stopped_gateway_is_passed_over(proxied: Proxied) -> None:
    """The last one to use the pair."""
    proxied.second.terminate()
    assert proxied.second.wait(90) == 0
    assert [proxied.chat().status_code for _ in range(8)] == [200] * 8
