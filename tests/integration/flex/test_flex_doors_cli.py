"""`penstock jobs` on a real queue: list, show, cancel, watch."""

import asyncio
import json
import re
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner, Result

from penstock.cli.commands import app
from penstock.clock import new_id
from penstock.queue import Batches, NewBatch, Queue, QueueSettings
from penstock.records.account import AccountId, KeyId
from penstock.records.job import BatchId, Door, JobId, NewJob, Submission, Ticket
from penstock.records.model import ModelId
from penstock.store import Store, StoreSettings
from penstock.wire.resources.batches import public_id

ACCOUNT, KEY, MODEL = AccountId("a" * 32), KeyId("k"), ModelId("@cf/x/m")


async def _add(dsn: str, count: int, door: Door = Door.WORKERS_AI) -> tuple[list[str], str]:
    """Jobs of one batch, oldest first, and the batch."""
    batch = BatchId(new_id())
    ids = sorted(new_id() for _ in range(count))
    jobs = [NewJob(JobId(id), b"{}", Ticket(), item=place) for place, id in enumerate(ids)]
    shared: Any = {"account": ACCOUNT, "key": KEY, "door": door, "model": MODEL}
    submission = Submission(**shared, deadline=4e9, batch=batch)
    store, queue = Store(StoreSettings(dsn=dsn)), Queue(QueueSettings())
    await store.open()
    try:
        async with store.transaction() as transaction:
            opened = NewBatch(id=batch, **shared, deadline=4e9)
            await Batches().open(transaction, opened)
            await queue.submit(transaction, submission, jobs)
            await queue.measure(transaction)
    finally:
        await store.close()
    return ids, batch


@pytest.fixture
async def queued(dsn: str) -> tuple[list[str], str]:
    return await _add(dsn, 3)


@pytest.fixture
def run(dsn: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("PENSTOCK_STORE_DSN", dsn)

    def penstock(*arguments: str) -> Result:
        return CliRunner().invoke(app, ["jobs", *arguments])

    return penstock


def test_jobs_are_listed_for_people_and_scripts(run: Any, queued: tuple[list[str], str]) -> None:
    jobs, batch = queued
    lines = run("list").stdout.splitlines()
    assert [line.split()[0] for line in lines[1:]] == jobs[::-1]
    assert lines[1].split()[1:3] == ["queued", MODEL.rpartition("/")[2]]
    found = json.loads(run("list", "--json", "--batch", batch, "--in", "queued").stdout)
    assert [job["id"] for job in found] == jobs[::-1]
    page = run("list", "--limit", "2")
    assert len(page.stdout.splitlines()) == 3
    assert f"--after {jobs[1]}" in page.stderr
    rest = run("list", "--after", jobs[1], "--json")
    assert [job["id"] for job in json.loads(rest.stdout)] == jobs[:1]
    assert run("list", "--in", "failed", "--json").stdout.strip() == "[]"


def test_one_job_is_shown_and_cancelled(run: Any, queued: tuple[list[str], str]) -> None:
    jobs, batch = queued
    shown = dict(line.split(maxsplit=1) for line in run("show", jobs[1]).stdout.splitlines())
    assert (shown["state"], shown["position"], shown["batch"]) == ("queued", "2", batch)
    assert shown["API"] == "Workers AI"
    assert "door" not in shown
    cancelled = json.loads(run("cancel", jobs[1], "--json").stdout)
    assert (cancelled["state"], cancelled["error"]["code"]) == ("cancelled", "job_cancelled")
    again = run("cancel", jobs[1])
    assert again.exit_code == 0
    assert "cancelled" in again.stdout
    for unknown in (new_id(), "nonsense"):
        for command in ("show", "cancel"):
            failed = run(command, unknown)
            assert failed.exit_code != 0
            assert unknown in failed.stderr


@pytest.mark.parametrize("door", [Door.WORKERS_AI, Door.BATCHES])
def test_a_batch_is_shown_and_cancelled_by_the_id_that_its_caller_knows(
    run: Any, dsn: str, door: Door
) -> None:
    jobs, batch = asyncio.run(_add(dsn, 3, door))
    known = public_id(batch) if door is Door.BATCHES else batch
    assert "3: 3 queued" in run("show", known).stdout
    listed = json.loads(run("list", "--batch", known, "--json").stdout)
    assert [(job["id"], job["batch"]) for job in listed] == [(id, known) for id in jobs[::-1]]
    assert run("watch", "--batch", known, "--once").stdout.startswith(f"{batch}: 0/3 done")
    cancelled = run("cancel", known)
    assert "3: 3 cancelled" in cancelled.stdout, cancelled.output
    assert json.loads(run("show", known, "--json").stdout)["cancelled"] == 3


def test_a_paused_model_is_said_to_be_paused(
    run: Any, queued: tuple[list[str], str], dsn: str
) -> None:
    jobs, batch = queued
    with psycopg.connect(dsn) as connection:
        connection.execute("update flex_stats set finished_per_second = 0.00001")
        connection.execute("update jobs set deadline = now() + interval '1 hour'")
    # At that rate the job would not begin before its deadline.
    assert json.loads(run("show", jobs[0], "--json").stdout)["eta_seconds"] is None
    with psycopg.connect(dsn) as connection:
        connection.execute("update flex_stats set finished_per_second = 1")
    assert json.loads(run("show", jobs[0], "--json").stdout)["eta_seconds"] == 1.0
    for said in ("is_paused", "in_flight_max"):
        stopped = (said == "is_paused", 0 if said == "in_flight_max" else None)
        with psycopg.connect(dsn) as connection:
            connection.execute("delete from flex_controls")
            connection.execute("insert into flex_controls values (%s, %s, %s)", (MODEL, *stopped))
        assert json.loads(run("show", jobs[0], "--json").stdout)["eta_seconds"] is None
        shown = run("show", jobs[0]).stdout
        assert re.search(r"^state +paused$", shown, re.MULTILINE)
        assert "ETA" not in shown
        assert re.search(r"^state +paused$", run("show", batch).stdout, re.MULTILINE)
        assert {line.split()[1] for line in run("list").stdout.splitlines()[1:]} == {"paused"}
        assert run("watch", "--once").stdout.strip().endswith("ETA paused")
        (row,) = json.loads(run("watch", "--once", "--json").stdout)
        assert (row["eta_seconds"], row["is_paused"]) == (None, True)


def test_queues_are_watched(run: Any, queued: tuple[list[str], str]) -> None:
    jobs, batch = queued
    line = run("watch", "--once").stdout.strip()
    assert line.startswith(f"{MODEL}: 0/3 done, 3 queued, 0 running")
    (row,) = json.loads(run("watch", "--once", "--json").stdout)
    assert (row["name"], row["queued"], row["total"]) == (MODEL, 3, 3)
    assert "Nothing is queued." in run("watch", "--model", "other").stdout
    for job in jobs:
        run("cancel", job)
    # It ends by itself when nothing is left.
    done = run("watch", "--batch", batch)
    assert done.stdout.startswith(f"{batch}: 3/3 done, 0 queued")
    assert run("watch", "--batch", new_id()).exit_code != 0
    assert run("watch", "--batch", "nonsense").exit_code != 0
