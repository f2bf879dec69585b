"""An auditor sends every form of the console: each is refused and logged, and changes nothing."""

import re
from typing import Any, Final

import pytest
from tests.integration.cells.control_process import ControlProcess
from tests.integration.console.console_browser import Browser
from tests.integration.console.console_cell import OFFERED, assert_safe
from tests.integration.console.console_rows import HOST, MODEL, REPLICA, ConsoleRows

_FORM: Final = re.compile(r'action="/console/do/(\w+)"')
_LIMIT: Final = {"measure": "requests", "period": "day", "amount": 7}
_DENIED: Final = {"kind": "operator", "verdict": "deny", "limit": "1000"}
# What any of the forms could change.
_CHANGED: Final = ("accounts", "keys", "limits", "replicas", "hosts", "flex")


@pytest.fixture(scope="module")
def limit(control: ControlProcess, rows: ConsoleRows) -> str:
    """The id of a limit that can be removed."""
    with control.client() as client:
        asked = {"account": rows.account, "amounts": [_LIMIT]}
        assert client.post("/limits", json=asked).status_code == 200
        [found] = client.get("/limits", params={"account": rows.account}).json()["limits"]
    return str(found["limit"]["id"])


def forms(rows: ConsoleRows, limit: str) -> dict[str, dict[str, str]]:
    """The fields of each form, which would do something if an operator sent them."""
    of_limit = {name: str(value) for name, value in _LIMIT.items()} | {"amount": "1"}
    return {
        "create_account": {"name": "never made"},
        "change_account": {"account": rows.account, "name": "never named"},
        "create_key": {"role": "operator", "name": "never made"},
        "revoke_key": {"key": rows.runtime_key},
        "set_limits": {"account": rows.account, "scope": "account", **of_limit},
        "remove_limit": {"limit": limit},
        "change_flex": {"model": MODEL, "is_paused": "true"},
        "drain_replica": {"replica": REPLICA},
        "restart_replica": {"replica": REPLICA, "typed": REPLICA},
        "cordon_host": {"host": HOST},
        "uncordon_host": {"host": HOST},
        "drain_host": {"host": HOST, "typed": HOST},
    }


def state_of(control: ControlProcess) -> dict[str, Any]:
    """What the forms could change, without what changes by itself."""
    with control.client() as client:
        found = {name: client.get(f"/{name}").json() for name in _CHANGED}
    replicas, hosts = found["replicas"]["replicas"], found["hosts"]["hosts"]
    return {
        "accounts": found["accounts"],
        "keys": [(key["id"], key["name"]) for key in found["keys"]["keys"]],
        "limits": found["limits"],
        "replicas": [(row["id"], row["state"], row["asked"]) for row in replicas],
        "hosts": [(row["report"]["name"], row["is_cordoned"], row["is_draining"]) for row in hosts],
        "flex": [each["control"] for each in found["flex"]["models"]],
    }


def denied(control: ControlProcess) -> list[tuple[str, list[str], str]]:
    """The refused acts: who, what, and why."""
    with control.client() as client:
        rows = client.get("/decisions", params=_DENIED).json()["data"]
    return [(row["actor"], row["subjects"], row["reason"]) for row in rows]


def test_an_auditors_forms_are_refused_and_logged(
    control: ControlProcess, rows: ConsoleRows, limit: str
) -> None:
    before = state_of(control)
    with control.client() as client:
        keys = client.get("/keys").json()["keys"]
    [key] = [key["id"] for key in keys if key["role"] == "auditor"]
    with Browser(control, control.keys.auditor) as auditor:
        for operation, fields in forms(rows, limit).items():
            answer = auditor.do(operation, **fields)
            assert answer.status_code == 403, operation
            assert "reads and changes nothing" in answer.text
            assert_safe(answer)
    logged = [row for row in denied(control) if row[0] == key]
    assert sorted(logged) == [(key, [operation], "forbidden") for operation in sorted(OFFERED)]
    assert state_of(control) == before


def test_operators_get_these_forms_and_auditors_none(
    control: ControlProcess, browser: Browser, rows: ConsoleRows, limit: str
) -> None:
    assert set(forms(rows, limit)) == OFFERED
    with Browser(control, control.keys.auditor) as auditor:
        shown, to_auditors = set(), set()
        for path in ("/console/accounts", "/console/fleet", "/console/flex"):
            shown |= set(_FORM.findall(browser.page(path)))
            to_auditors |= set(_FORM.findall(auditor.page(path)))
    assert shown <= OFFERED
    assert {"change_account", "remove_limit", "restart_replica", "change_flex"} <= shown
    assert to_auditors == set()
