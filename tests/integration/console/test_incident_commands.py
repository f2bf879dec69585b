"""An incident of which commands find the culprits: a broken cache, and a slow replica."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.integration.cells.commands import Penstock, read
from tests.integration.cells.incident_rows import WORKFLOWS, Incident, make_incident
from tests.integration.cells.usage_rows import attempt, new_account, write
from tests.integration.contracts.decision_worker import DecisionWorker
from tests.unit.contracts.decision_rows import DECIDED, DENIED

from penstock.clock import SystemClock, new_id
from penstock.store import Store

SEED = 20261119


@pytest.fixture
async def incident(store: Store) -> Incident:
    now = datetime.fromtimestamp(SystemClock().now(), UTC)
    return await make_incident(store, SEED, now)


def test_stability_shows_whose_cache_is_broken(penstock: Penstock, incident: Incident) -> None:
    period = ("--since", incident.began_at.isoformat(), "--until", incident.ends_at.isoformat())
    rows = read(penstock("usage", "stability", *period, "--json"))["rows"]
    assert {row["workflow"] for row in rows} == set(WORKFLOWS)
    broken = {row["workflow"]: row["cache_breaks"] for row in rows if row["cache_breaks"]}
    assert list(broken) == [incident.workflow]
    (row,) = [row for row in rows if row["workflow"] == incident.workflow]
    assert (row["hit_counted"], row["stayed"]) == (0, 1)
    assert row["hit_expected"] > 0.8
    # 24 sessions of 12 turns, of which the first breaks nothing; a point for each hour.
    assert (row["session_turns"], row["cache_breaks"]) == (24 * 12, 24 * 11)
    assert len(row["hits"]) == 24
    table = penstock("usage", "stability", *period).stdout
    assert incident.workflow in table


def test_sessions_are_listed_by_what_stands_out(penstock: Penstock, incident: Incident) -> None:
    since = ("--since", incident.began_at.isoformat())
    by_breaks = read(penstock("usage", "sessions", *since, "--order", "breaks", "--json"))
    first = by_breaks["sessions"][0]
    assert first["workflow"] == incident.workflow
    # A session over midnight is one row.
    assert (first["turns"], first["cache_breaks"]) == (12, 11)
    assert first["prompt_growth_tokens"] == pytest.approx(900, abs=30)
    assert len({row["session"] for row in by_breaks["sessions"]}) == len(by_breaks["sessions"])
    dearest = read(penstock("usage", "sessions", *since, "--json"))["sessions"]
    costs = [row["cost_nanousd"] for row in dearest]
    assert costs == sorted(costs, reverse=True)
    only = read(penstock("usage", "sessions", *since, "--workflow", "nothing", "--json"))
    assert only["sessions"] == []


def test_slow_requests_name_their_replica_and_dear_ones_their_break(
    penstock: Penstock, incident: Incident
) -> None:
    since = ("--since", incident.began_at.isoformat())
    slow = read(penstock("requests", "--slow", *since, "--limit", "20", "--json"))["requests"]
    assert {row["replica"] for row in slow} == {incident.replica}
    waits = [row["waited_ms"] + row["first_token_ms"] for row in slow]
    assert waits == sorted(waits, reverse=True)
    dear = read(penstock("requests", "--dear", *since, "--limit", "20", "--json"))["requests"]
    assert {row["workflow"] for row in dear} == {incident.workflow}
    assert all("cache break: system" in row["why"] for row in dear)
    assert "cache break: system" in penstock("requests", "--dear", *since).stdout


def test_explain_says_what_is_slow_and_what_is_dear(penstock: Penstock, incident: Incident) -> None:
    since = ("--since", incident.began_at.isoformat())
    slow = read(penstock("requests", "--slow", *since, "--limit", "1", "--json"))["requests"]
    found = read(penstock("explain", slow[0]["request"], "--json"))
    assert f"Replica {incident.replica} is slow" in found["summary"]
    dear = read(penstock("requests", "--dear", *since, "--limit", "1", "--json"))["requests"]
    found = read(penstock("explain", dear[0]["request"], "--json"))
    about = {(each["about"], each["kind"]) for each in found["findings"]}
    assert ("dear", "cache") in about
    assert ("cache", "break") in about
    printed = penstock("explain", dear[0]["request"]).stdout
    assert "The system message is not that of the session's last turn" in printed
    assert "charge: (" in printed


@pytest.fixture
async def failed_requests(store: Store) -> list[str]:
    """Two that failed, five minutes and three hours ago, among others."""
    now, account = SystemClock().now(), new_account()
    rows = [attempt(account, asked_at=now - 60 * minute) for minute in range(1, 20)]
    failed = [
        attempt(account, asked_at=now - age, outcome="failed", error="engine_lost")
        for age in (300, 3 * 3600)
    ]
    await write(store, [*rows[:9], *failed, *rows[9:]])
    return [each["request"] for each in failed]


def test_the_failed_requests_of_a_period_are_listed_alone(
    penstock: Penstock, failed_requests: list[str]
) -> None:
    late, early = failed_requests

    def listed(*options: str) -> list[str]:
        found = read(penstock("requests", *options, "--json"))
        return [row["request"] for row in found["requests"]]

    assert listed("--failed") == [late]
    assert listed("--failed", "--since", "4h") == [late, early]
    assert listed("--failed", "--since", "4h", "--until", "2h") == [early]
    assert listed("--failed", "--since", "2m") == []
    assert len(listed("--since", "4h")) == 21
    [_, line] = penstock("requests", "--failed").stdout.splitlines()
    assert late in line
    assert "engine_lost" in line


def test_explain_names_the_trace_and_is_asked_by_it(penstock: Penstock, incident: Incident) -> None:
    [row] = read(penstock("requests", "--since", "2d", "--limit", "1", "--json"))["requests"]
    trace = row["request"].replace("-", "")
    by_request = read(penstock("explain", row["request"], "--json"))
    assert by_request["own_trace"] == trace
    assert read(penstock("explain", trace, "--json")) == by_request
    assert f"trace {trace}, unless the caller named its own" in penstock("explain", trace).stdout
    # As many digits, but of no request's id.
    assert penstock("explain", "0" * 32).exit_code == 4


def test_former_names_say_the_same_of_a_request_that_is_known(
    penstock: Penstock, incident: Incident
) -> None:
    since = ("--since", incident.began_at.isoformat())
    dear = read(penstock("requests", "--dear", *since, "--limit", "1", "--json"))["requests"]
    request = dear[0]["request"]
    explained = read(penstock("explain", request, "--json"))
    assert read(penstock("usage", "request", request, "--json")) == explained["request"]
    why = read(penstock("cache", "why", request, "--json"))
    of_cache = [each for each in explained["findings"] if each["about"] == "cache"]
    assert [each["said"] for each in why["findings"]] == [each["said"] for each in of_cache]
    for former in (("usage", "request"), ("cache", "why")):
        shown = penstock(*former, request)
        assert shown.exit_code == 0
        assert request in shown.stdout


def test_former_names_are_in_no_list_of_commands(penstock: Penstock) -> None:
    def listed(*group: str) -> set[str]:
        shown = penstock(*group, "--help")
        assert shown.exit_code == 0
        return {
            words[0] for line in shown.stdout.splitlines() if (words := line.strip("│ ").split())
        }

    commands = listed()
    assert {"explain", "requests", "usage"} <= commands
    assert "cache" not in commands
    of_usage = listed("usage")
    assert {"diff", "sessions", "export"} <= of_usage
    assert "request" not in of_usage


def test_explain_knows_what_it_does_not_know(penstock: Penstock) -> None:
    unknown = penstock("explain", new_id())
    assert unknown.exit_code == 1
    assert "The ledger does not know" in unknown.stderr
    assert penstock("explain", "no-id").exit_code == 4


async def test_a_request_that_was_refused_is_explained_by_its_decision(
    penstock: Penstock, store: Store, tmp_path: Path
) -> None:
    worker = DecisionWorker(store, tmp_path)
    worker.decide(1, DENIED)
    await worker.drain.empty()
    found = await asyncio.to_thread(lambda: penstock("explain", DECIDED.id, "--json"))
    answer = read(found)
    assert answer["request"] is None
    assert [each["about"] for each in answer["findings"]] == ["refused"]
    assert "bash" in answer["summary"]
