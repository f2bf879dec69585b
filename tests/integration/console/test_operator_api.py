"""The operator's API: who may call what, what it answers, and how it refuses."""

import json
from pathlib import Path
from typing import Any

from tests.integration.cells.control_process import ControlProcess
from tests.integration.cells.gateway_process import eventually
from tests.integration.console.operator_calls import NOBODY, call

from penstock.console.operations import OPERATIONS


def test_every_operation_asks_for_an_operators_key(control: ControlProcess) -> None:
    with control.client() as client:
        account = client.post("/accounts", json={"name": "Team A"}).json()["id"]
        made = client.post("/keys", json={"account": account}).json()
    runtime, before = made["secret"], state_of(control)
    refusals = {"": "unauthenticated", "psk_unknown": "unauthenticated", runtime: "forbidden"}
    for operation in OPERATIONS:
        for secret, code in refusals.items():
            _, body = call(control, secret, operation)
            assert body["error"]["code"] == code, operation.name
    assert state_of(control) == before


def test_an_auditor_changes_nothing_and_reads_all(control: ControlProcess) -> None:
    before = state_of(control)
    changing = [each for each in OPERATIONS if not each.is_reading]
    assert len(changing) >= 10
    for operation in changing:
        status, body = call(control, control.keys.auditor, operation)
        assert (status, body["error"]["code"]) == (403, "forbidden"), operation.name
    for operation in set(OPERATIONS) - set(changing):
        status, body = call(control, control.keys.auditor, operation)
        assert status in (200, 404), (operation.name, body)
    assert state_of(control) == before


def state_of(control: ControlProcess) -> str:
    """Everything that operations change, as an operator reads it."""
    with control.client() as client:
        paths = (
            *("/accounts", "/keys", "/limits", "/flex", "/jobs", "/responses", "/lease-holders"),
            "/contract-sets",
        )
        return json.dumps([client.get(path).json() for path in paths])


def test_a_revoked_key_is_refused_at_once(control: ControlProcess) -> None:
    with control.client() as client:
        made = client.post("/keys", json={"role": "operator", "name": "second"}).json()
        with control.client(made["secret"]) as second:
            assert second.get("/accounts").status_code == 200
            assert client.delete(f"/keys/{made['key']['id']}").json()["is_revoked"]
            assert second.get("/accounts").status_code == 401


def test_questions_are_read_strictly(control: ControlProcess) -> None:
    with control.client() as client:
        for answer, param in (
            (client.post("/accounts", json={"name": "x", "colour": "red"}), "colour"),
            (client.post("/accounts", json={}), "name"),
            (client.post("/accounts", json={"name": 5}), "name"),
            (client.post("/accounts", content=b"{"), None),
            (client.post("/accounts?name=x", json={"name": "x"}), None),
            (client.post("/accounts", json={"name": "a\0b"}), "name"),
            (client.get("/jobs?limit=0"), "limit"),
            (client.get("/jobs?limit=1&limit=2"), "limit"),
            (client.get("/jobs?colour=red"), "colour"),
            (client.get("/usage?since=yesterday"), "since"),
            (client.get("/usage/charges?hour=2026-11-01T00:30:00Z"), "hour"),
            (client.patch(f"/accounts/{NOBODY}", json={"account": "x"}), "account"),
        ):
            assert answer.status_code == 400, answer.text
            assert answer.json()["error"]["param"] == param
        assert client.get("/nothing").status_code == 404
        assert client.put("/accounts").status_code == 405
        assert client.get("/accounts").headers["x-request-id"]


def test_names_of_accounts_stand_for_their_ids(control: ControlProcess) -> None:
    with control.client() as client:
        account = client.post("/accounts", json={"name": "Team A"}).json()
        changed = client.patch("/accounts/Team A", json={"flex_weight": 7}).json()
        assert changed == {**account, "flex_weight": 7}
        amounts = [{"measure": "requests", "period": "minute", "amount": 60}]
        made = client.post("/limits", json={"account": "Team A", "amounts": amounts}).json()
        assert made["limits"][0]["account"] == account["id"]
        found = client.get("/limits", params={"account": "Team A"}).json()
        assert found["account_names"] == {account["id"]: "Team A"}
        unknown = client.patch("/accounts/Team B", json={"is_blocked": True})
        assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "not_found")


def test_running_processes_are_listed(control: ControlProcess) -> None:
    with control.client() as client:
        [seen] = client.get("/workers").json()["workers"]
        assert seen["worker"]["kind"] == "control"
        assert seen["worker"]["facts"]["address"] == f"127.0.0.1:{control.port}"
        assert seen["silent_seconds"] < 30
        assert client.get("/hosts").json() == {"hosts": []}
        assert client.get("/replicas").json() == {"replicas": [], "use": {}}


def test_changes_are_logged_with_their_key(control: ControlProcess, tmp_path: Path) -> None:
    with control.client() as client:
        client.post("/accounts", json={"name": "Team A"})

    def lines() -> list[Any]:
        text = (tmp_path / "control.log").read_text()
        return [json.loads(line) for line in text.splitlines() if '"operator_change"' in line]

    eventually(lambda: len(lines()) == 1)
    [line] = lines()
    assert line["operation"] == "create_account"
    assert line["key"]
