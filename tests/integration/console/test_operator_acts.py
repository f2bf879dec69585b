"""Every act of administration is a decision with its actor, also one that was refused."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.integration.cells.commands import Penstock
from tests.integration.cells.control_process import ControlProcess
from tests.integration.console.operator_calls import call

from penstock.app.operator_rooms import operator_rooms
from penstock.catalogue import Catalogue
from penstock.clock import SystemClock
from penstock.config import Config
from penstock.console.acts import run_logged
from penstock.console.flex_operations import CHANGE_FLEX, FlexChange, ShownControl
from penstock.console.operations import OPERATIONS
from penstock.console.rooms import OperatorRooms
from penstock.store import Store
from penstock.wire.resources.decisions import read_decision_query

_SECRET_WORDS = ("psk_", "secret")


def acts(control: ControlProcess, **asked: str) -> list[dict[str, Any]]:
    """The acts so far, oldest first."""
    with control.client() as client:
        answer = client.get("/decisions", params={"kind": "operator", "limit": "1000", **asked})
    assert answer.status_code == 200, answer.text
    rows: list[dict[str, Any]] = answer.json()["data"]
    return rows[::-1]


def test_every_operation_that_changes_something_is_logged_with_who_did_it(
    control: ControlProcess,
) -> None:
    key_id = _own_key(control)
    changing = [operation for operation in OPERATIONS if not operation.is_reading]
    for operation in changing:
        before = len(acts(control))
        status, _ = call(control, control.keys.operator, operation)
        new = acts(control)[before:]
        assert new, operation.name
        assert (new[0]["subjects"][0], new[0]["verdict"]) == (operation.name, "allow")
        assert new[0]["actor"] == key_id
        # An act that failed has a second row, with why.
        assert len(new) == (1 if status == 200 else 2), operation.name
        assert all(row["verdict"] == "deny" and row["reason"] for row in new[1:])


def test_reading_is_not_logged(control: ControlProcess) -> None:
    before = len(acts(control))
    for operation in OPERATIONS:
        if operation.is_reading:
            call(control, control.keys.operator, operation)
    assert len(acts(control)) == before


def test_what_an_auditor_tried_to_change_is_logged(control: ControlProcess) -> None:
    with control.client(control.keys.auditor) as client:
        refused = client.post("/accounts", json={"name": "mine"})
    assert refused.status_code == 403
    [row] = acts(control, verdict="deny")
    assert (row["subjects"], row["reason"]) == (["create_account"], "forbidden")


def test_facts_of_an_act_have_no_secret_and_no_long_text(control: ControlProcess) -> None:
    document = 'schema = 1\nname = "review"\noutput = { tokens_max = 50 }\n' + "# x" * 500
    with control.client() as client:
        account = client.post("/accounts", json={"name": "Team A"}).json()["id"]
        made = client.post("/keys", json={"account": account, "name": "ci"}).json()
        client.delete(f"/keys/{made['key']['id']}")
        client.post("/contract-sets", json={"documents": [document], "message": "why"})
    text = json.dumps(rows := acts(control))
    assert made["secret"] not in text
    assert "# x" not in text
    facts = {row["subjects"][0]: row["facts"] for row in rows}
    assert facts["create_key"] == {"role": "runtime", "account": account, "name": "ci"}
    assert rows[2]["subjects"] == ["revoke_key", made["key"]["id"]]
    applied = facts["apply_contracts"]
    assert applied["message"] == "why"
    assert len(str(applied["documents_sha256"])) == 64


def test_a_command_with_the_databases_address_is_logged_as_the_database(
    penstock: Penstock,
) -> None:
    assert penstock("account", "create", "Team B").exit_code == 0
    found = penstock("decisions", "--kind", "operator", "--json")
    [row] = json.loads(found.output)
    assert (row["actor"], row["subjects"]) == ("database", ["create_account"])
    table = penstock("decisions")
    assert "create_account" in table.output


def test_commands_over_http_show_and_verify_the_log(remote: Penstock, tmp_path: Path) -> None:
    assert remote("account", "create", "Team C").exit_code == 0
    verified = remote("decisions", "verify", "--json")
    assert verified.exit_code == 0, verified.output
    said = {"rows": 1, "chains": 1, "heads": 0, "heads_dropped": 0, "faults": []}
    assert json.loads(verified.output) == said
    heads = tmp_path / "heads.jsonl"
    heads.write_text(remote("decisions", "heads", "--json").output)
    held = remote("decisions", "verify", "--heads", str(heads))
    assert "1 rows in 1 chains, 1 heads held outside: no fault" in held.output
    forged = json.loads(heads.read_text())
    forged["heads"][0]["sequence"] = 7
    heads.write_text(json.dumps(forged))
    missed = remote("decisions", "verify", "--heads", str(heads))
    assert missed.exit_code == 1
    assert "missing up to row 7, held outside" in missed.output
    heads.write_text("not json\n")
    assert remote("decisions", "verify", "--heads", str(heads)).exit_code == 2


def test_an_auditor_reads_the_log_and_a_runtime_key_does_not(control: ControlProcess) -> None:
    with control.client(control.keys.auditor) as client:
        assert client.get("/decisions").status_code == 200
        assert client.get("/decisions/days").status_code == 200
    with control.client() as client:
        account = client.post("/accounts", json={"name": "Team D"}).json()["id"]
        runtime = client.post("/keys", json={"account": account}).json()["secret"]
    with control.client(runtime) as client:
        assert client.get("/decisions").status_code == 403


async def test_an_act_that_breaks_off_has_a_second_row(store: Store) -> None:
    async def broken(_rooms: OperatorRooms, _asked: FlexChange) -> ShownControl:
        raise KeyError

    operation = msgspec.structs.replace(CHANGE_FLEX, run=broken)
    rooms = operator_rooms(store, Config(), SystemClock(), lambda: Catalogue([]))
    with pytest.raises(KeyError):
        await run_logged(operation, rooms, FlexChange(model="big"))
    found = await rooms.decisions.find(read_decision_query([], SystemClock().now()))
    assert [(row.line.verdict, row.line.reason) for row in found] == [
        ("deny", "internal_error"),
        ("allow", ""),
    ]


def _own_key(control: ControlProcess) -> str:
    with control.client() as client:
        keys = client.get("/keys").json()["keys"]
    return next(str(key["id"]) for key in keys if key["role"] == "operator")


def test_questions_have_no_field_that_is_a_secret() -> None:
    for operation in OPERATIONS:
        names = [field.name for field in msgspec.structs.fields(operation.question)]
        assert not [name for name in names if any(word in name for word in _SECRET_WORDS)]
