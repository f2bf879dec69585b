"""Hostile clients of the operator's port: wrong keys, odd questions, too much, too many."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case, GenerationMode, checks
from schemathesis.core.result import Ok
from tests.integration.cells.control_process import ControlProcess, control_process
from tests.integration.cells.raw_client import RawClient
from tests.integration.hostile.hostile_caller import Caller
from tests.integration.hostile.smuggling_cases import CASES, Parts

_SETTINGS = {
    "control.wrong_keys_per_minute": 10_000,
    "control.requests_per_minute": 1_000_000,
    "control.body_bytes_max": 65_536,
    "control.connections_max": 20,
}
_EXAMPLES, _EXAMPLES_FULL = 8, 60
_CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]


@pytest.fixture(scope="module")
def control(module_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlProcess]:
    """One process for all: none of these tests may harm it."""
    with control_process(module_dsn, tmp_path_factory.mktemp("control"), _SETTINGS) as control:
        yield control


def still_serves(control: ControlProcess) -> None:
    with control.client() as client:
        assert client.get("/accounts").status_code == 200


@pytest.mark.parametrize("mode", list(GenerationMode))
def test_openapi_is_true_whatever_is_asked(
    control: ControlProcess, mode: GenerationMode, full: bool
) -> None:
    schema = schemathesis.openapi.from_url(f"{control.url}/operator/v1/openapi.json")
    found = list(schema.get_all_operations())
    operations = [each.ok() for each in found if isinstance(each, Ok)]
    assert len(operations) == len(found) >= 25
    with requests.Session() as session:
        session.trust_env = False
        session.headers["authorization"] = f"Bearer {control.keys.operator}"
        for operation in operations:
            if mode is GenerationMode.NEGATIVE and not (
                operation.body or list(operation.iter_parameters())
            ):
                continue
            _ask(operation.as_strategy(generation_mode=mode), session, full=full)
    still_serves(control)


def _ask(strategy: Any, session: requests.Session, *, full: bool) -> None:
    @given(case=strategy)
    @settings(
        max_examples=_EXAMPLES_FULL if full else _EXAMPLES,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    def run(case: Case[Any]) -> None:
        answer = case.call(session=session)
        assert answer.status_code != 429
        case.validate_response(answer, checks=_CHECKS)

    run()


def test_a_body_that_goes_on_after_its_answer_gets_no_second_one(control: ControlProcess) -> None:
    """A client would take it for the answer to its next request."""
    chunk = b"4000\r\n" + b"x" * 0x4000 + b"\r\n"
    with RawClient(control.port) as client:
        client.send(b"POST /nowhere HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
        client.send(chunk)
        assert client.read_answer().status == 404
        # It is closed under the client, perhaps while it sends.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for _ in range(8):
                client.send(chunk)
        assert client.is_closed()


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_smuggled_or_served(control: ControlProcess, name: str) -> None:
    """No inference runs here: whatever is sent, each answer is a refusal."""
    parts = Parts(Caller("0" * 32, control.keys.operator))
    with RawClient(control.port, seconds=12) as client:
        client.send(CASES[name](parts))
        client.socket.shutdown(1)
        text = client.read_to_the_end()
    assert b" 200 OK" not in text
    still_serves(control)


def test_inference_is_not_served_here(control: ControlProcess) -> None:
    with control.client() as client:
        answer = client.post(f"{control.url}/v1/chat/completions", json={"model": "m"})
        assert (answer.status_code, "gateways" in answer.text) == (404, True)
        assert client.get(f"{control.url}/v1/models").status_code == 404


def test_bodies_heads_and_connections_are_bounded(control: ControlProcess) -> None:
    with control.client() as client:
        big = client.post("/accounts", content=b" " * 70_000)
        assert big.status_code == 413
        long = client.post(f"{control.url}/v1/chat/completions", content=b"x" * 200_000)
        assert long.status_code == 413
        file = client.post(f"{control.url}/v1/files", content=b"x" * 200_000)
        assert file.status_code == 413
        long = client.get("/accounts", headers={"x-long": "x" * 70_000})
        assert long.status_code == 431
    held = [RawClient(control.port) for _ in range(25)]
    try:
        refused = 0
        for each in held:
            each.send(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
            refused += each.read_head()[1] == 503
        assert refused >= 5
    finally:
        for each in held:
            each.socket.close()
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        with control.client() as client:
            if client.get("/accounts").status_code == 200:
                break
        time.sleep(0.05)
    still_serves(control)


def test_wrong_keys_and_eager_keys_are_slowed_down(dsn: str, tmp_path: Path) -> None:
    bounds = {"control.wrong_keys_per_minute": 3, "control.requests_per_minute": 5}
    with control_process(dsn, tmp_path, bounds) as control:
        with control.client() as client:
            statuses = [client.get("/accounts").status_code for _ in range(7)]
            assert statuses == [200] * 5 + [429] * 2
            last = client.get("/accounts")
            assert 1 <= int(last.headers["retry-after"]) <= 60
        with control.client("psk_wrong") as client:
            statuses = [client.get("/accounts").status_code for _ in range(5)]
            assert statuses == [401] * 3 + [429] * 2
        with control.client(control.keys.auditor) as client:
            # The address has guessed too often: not even a right key is looked at.
            assert client.get("/accounts").status_code == 429
