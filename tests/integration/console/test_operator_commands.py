"""Commands of administration over the operator's API, with no database in reach."""

import json

import pytest
from tests.integration.cells.commands import Penstock, read
from tests.integration.cells.control_process import ControlProcess


def test_every_command_of_administration_works_without_a_dsn(remote: Penstock) -> None:
    account = read(remote("account", "create", "Team A", "--json"))
    assert [each["name"] for each in read(remote("account", "list", "--json"))] == ["Team A"]
    assert (
        read(remote("account", "set", "Team A", "--flex-weight", "3", "--json"))["flex_weight"] == 3
    )
    assert read(remote("account", "block", "Team A", "--json"))["is_blocked"]
    assert not read(remote("account", "unblock", "Team A", "--json"))["is_blocked"]

    key = read(remote("key", "create", "--account", "Team A", "--name", "ci", "--json"))
    assert key["secret"].startswith("psk_")
    auditor = read(remote("key", "create", "--auditor", "--json"))
    assert (auditor["role"], auditor["account"]) == ("auditor", None)
    listed = read(remote("key", "list", "--account", "Team A", "--json"))
    assert [each["id"] for each in listed] == [key["id"]]
    assert "ci" in remote("key", "list").stdout
    assert read(remote("key", "revoke", key["id"], "--json")) == {
        "id": key["id"], "is_revoked": True,
    }  # fmt: skip

    [limit] = read(
        remote("limit", "set", "--account", "Team A", "--requests-per-minute", "60", "--json")
    )
    assert read(remote("limit", "list", "--json"))[0]["free"] == 60
    assert "Team A" in remote("limit", "list").stdout
    assert read(remote("limit", "remove", str(limit["id"]), "--json"))["is_removed"]
    assert read(remote("limit", "leases", "--json")) == []
    holder = "00000000-0000-7000-8000-000000000001"
    assert remote("limit", "release", "--holder", holder).exit_code == 4

    assert read(remote("jobs", "list", "--json")) == []
    assert remote("jobs", "show", holder).exit_code == 4
    assert remote("jobs", "cancel", holder).exit_code == 4
    assert remote("jobs", "watch", "--once").stdout == "Nothing is queued.\n"
    assert read(remote("flex", "pause", "kimi-k2.5", "--json"))["control"]["is_paused"]
    assert read(remote("flex", "limit", "kimi-k2.5", "5", "--json"))["control"] == {
        "is_paused": True, "in_flight_max": 5,
    }  # fmt: skip
    assert not read(remote("flex", "resume", "kimi-k2.5", "--json"))["control"]["is_paused"]
    no_limit = read(remote("flex", "limit", "kimi-k2.5", "--json"))["control"]
    assert no_limit["in_flight_max"] is None
    assert len(read(remote("flex", "show", "--json"))) == 1

    assert read(remote("responses", "list", "--json")) == []
    unknown = "resp_" + "019a0000000070008000000000000001"
    assert remote("responses", "show", unknown).exit_code == 4
    assert remote("responses", "delete", unknown).exit_code == 4

    assert read(remote("containers", "list", "--json")) == []
    assert remote("containers", "stop", "cntr_019a0000000070008000000000000001").exit_code == 4
    assert read(remote("containers", "usage", "--json"))["usage"] == []
    assert remote("containers", "usage", "--since", "yesterday").exit_code == 2

    assert read(remote("usage", "--json"))["rows"] == []
    assert read(remote("usage", "diff", "--json"))["rows"] == []
    assert remote("usage", "--session", "s").exit_code == 4
    assert remote("usage", "request", holder).exit_code == 4
    assert remote("cache", "why", holder).exit_code == 4
    exported = read(remote("usage", "export", "--out", "usage.csv", "--json"))
    assert exported["rows"] == 0

    forgotten = read(remote("account", "forget", "Team A", "--yes", "--json"))
    assert (forgotten["id"], forgotten["is_blocked"]) == (account["id"], True)


def test_control_that_cannot_be_reached_or_refuses_is_one_line(
    remote: Penstock, control: ControlProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_OPERATOR_KEY", control.keys.auditor)
    refused = remote("account", "create", "Team A")
    assert (refused.exit_code, "auditor" in refused.stderr) == (1, True)
    monkeypatch.setenv("PENSTOCK_OPERATOR_KEY", "psk_wrong")
    assert "unknown or revoked" in remote("account", "list").stderr
    monkeypatch.setenv("PENSTOCK_OPERATOR_KEY", "")
    assert remote("account", "list").exit_code == 2
    monkeypatch.setenv("PENSTOCK_OPERATOR_KEY", control.keys.operator)
    monkeypatch.setenv("PENSTOCK_OPERATOR_URL", "http://127.0.0.1:9")
    away = remote("account", "list")
    assert (away.exit_code, "nothing listens there" in away.stderr) == (1, True)


def test_answers_are_the_same_as_from_the_database(
    remote: Penstock, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read(remote("account", "create", "Team A", "--json"))
    read(remote("key", "create", "--account", "Team A", "--json"))
    read(remote("limit", "set", "--account", "Team A", "--usd-per-day", "1", "--json"))
    commands = [
        ("account", "list"), ("key", "list"), ("limit", "list"), ("limit", "leases"),
        ("jobs", "list"), ("flex", "show"), ("responses", "list"), ("usage",),
    ]  # fmt: skip
    over_http = [json.loads(remote(*command, "--json").stdout) for command in commands]
    monkeypatch.setenv("PENSTOCK_STORE_DSN", dsn)
    monkeypatch.delenv("PENSTOCK_OPERATOR_URL")
    monkeypatch.delenv("PENSTOCK_OPERATOR_KEY")
    assert [json.loads(remote(*command, "--json").stdout) for command in commands] == over_http
