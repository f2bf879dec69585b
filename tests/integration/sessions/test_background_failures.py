"""What each failure does to a background response: the rows of docs/state.md's second table."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import openai
import psycopg
import pytest
from tests.integration.cells.batch_cell import sdk
from tests.integration.cells.gateway_cell import CHAT, Cell, CellFactory
from tests.integration.cells.gateway_process import eventually
from tests.integration.cells.job_runner import JobRunner
from tests.integration.cells.leaving_callers import kill
from tests.integration.cells.stored_cell import STORING, V1, ask, postgres_away
from tests.integration.cells.webhook_receiver import receiving

from penstock.app.job_rooms import job_desk
from penstock.clock import SystemClock
from penstock.config import Config
from penstock.events import EndpointBook, EventsSettings, NewEndpoint, Shape, WebhookSettings
from penstock.events.deliverer import Deliverer
from penstock.events.relay import Relay
from penstock.events.signatures import shown
from penstock.ingress.pages.subscription_pages import failure_numbers
from penstock.jobs.submission import DeskRooms
from penstock.outbound import Sender
from penstock.queue import Batches, Claim, Queue, QueueSettings
from penstock.records.account import AccountId
from penstock.records.model import ModelId
from penstock.store import Store

QUICK = {
    **STORING,
    "ingress.job_poll_seconds": 0.05,
    "ingress.keepalive_seconds": 1.0,
    "store.connect_seconds": 2,
    "store.reconnect_seconds": 0.5,
}
HOOKS = WebhookSettings(allowed_networks=("127.0.0.0/8",), poll_seconds=0.02)


@pytest.fixture
def running(cells: CellFactory) -> Iterator[tuple[Cell, JobRunner]]:
    with cells.open(QUICK) as cell:
        engine = cell.set_up(CHAT)
        with JobRunner(cell, engine.url) as runner:
            yield cell, runner


def queued(client: openai.OpenAI) -> str:
    body: Any = {**ask({"tokens": 10}), "background": True}
    id: str = client.responses.create(**body).id
    return id


def test_any_gateway_killed_and_its_reader_goes_on(running: tuple[Cell, JobRunner]) -> None:
    cell, runner = running
    runner.hold()
    client = sdk(cell)
    body: Any = {**ask({"tokens": 10}), "background": True, "stream": True}
    seen: list[Any] = []
    stream = client.responses.create(**body)
    seen += [next(stream), next(stream)]
    kill(cell)
    with pytest.raises((openai.APIConnectionError, httpx.HTTPError)):
        next(stream)
    runner.go_on()
    with cell.gateway:
        # Another process at another port.
        again = sdk(cell)
        seen += again.responses.retrieve(
            seen[0].response.id, stream=True, starting_after=seen[-1].sequence_number
        )
        numbers = [event.sequence_number for event in seen]
        assert numbers == list(range(len(seen)))
        assert seen[-1].type == "response.completed"
        found = again.responses.retrieve(seen[0].response.id)
        assert found.output_text == seen[-1].response.output_text
    assert len(runner.ran) == 1


def test_keeper_killed_and_the_job_runs_elsewhere(running: tuple[Cell, JobRunner]) -> None:
    cell, runner = running
    runner.hold()
    id = queued(sdk(cell))

    async def claim_and_die(store: Store) -> None:
        values = await cell.open_values(store)
        queue = Queue(QueueSettings())
        async with store.transaction() as tx:
            (job,) = await queue.claim(tx, Claim(ModelId(CHAT), 1, "dead keeper", 0.1))
        assert f"resp_{job.id.replace('-', '')}" == id
        await asyncio.sleep(0.2)
        desk = job_desk(DeskRooms(store, queue, Batches(), values), Config(), SystemClock())
        assert (await desk.sweep()).requeued == 1

    cell.run(claim_and_die)
    assert cell.get(f"{V1}/{id}").json()["status"] == "queued"
    runner.go_on()
    eventually(lambda: cell.get(f"{V1}/{id}").json()["status"] == "completed")
    assert len(runner.ran) == 1


def test_postgres_away_and_its_readers_wait(running: tuple[Cell, JobRunner]) -> None:
    cell, runner = running
    runner.hold()
    client = sdk(cell)
    id = queued(client)
    is_reading = threading.Event()

    def read() -> list[Any]:
        stream = client.responses.retrieve(id, stream=True)
        is_reading.set()
        return list(stream)

    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(read)
        # The stream's head has come, so that it waits for events and not for its answer.
        assert is_reading.wait(30)
        with postgres_away(cell):
            eventually(lambda: cell.get(f"{V1}/{id}").status_code == 503)
            assert not reader.done()
        eventually(lambda: cell.get(f"{V1}/{id}").status_code == 200)
        # Its connection was cut too, with the reader's own.
        runner.stop_and_start()
        runner.go_on()
        events = reader.result(30)
    assert events[-1].type == "response.completed"


def test_client_gone_and_its_response_is_found(running: tuple[Cell, JobRunner]) -> None:
    cell, runner = running
    runner.hold()
    body: Any = {**ask(), "background": True, "stream": True}
    stream = sdk(cell).responses.create(**body)
    id = next(stream).response.id
    stream.close()
    runner.go_on()
    eventually(lambda: cell.get(f"{V1}/{id}").json()["status"] == "completed")


def test_stream_is_resumed_after_an_hour(running: tuple[Cell, JobRunner]) -> None:
    cell, _ = running
    client = sdk(cell)
    id = queued(client)
    eventually(lambda: cell.get(f"{V1}/{id}").json()["status"] == "completed")
    with psycopg.connect(cell.dsn) as connection:
        connection.execute("update responses set created_at = created_at - interval '1 hour'")
        connection.execute("delete from jobs")
    events = list(client.responses.retrieve(id, stream=True, starting_after=1))
    assert (events[0].sequence_number, events[-1].type) == (2, "response.completed")


async def test_end_is_told_by_webhook(running: tuple[Cell, JobRunner]) -> None:
    cell, runner = running
    async with receiving() as receiver:
        secret = await asyncio.to_thread(_end_both_ways, cell, runner, receiver.url)
        received = await receiver.wait_for(2)
    client = sdk(cell)
    events = [client.webhooks.unwrap(each.body, each.headers, secret=secret) for each in received]
    kinds = {event.type for event in events}
    assert kinds == {"response.completed", "response.cancelled"}
    for event in events:
        id: str = getattr(event.data, "id")  # noqa: B009 - the SDK's union has others too
        assert f"response.{client.responses.retrieve(id).status}" == event.type


def _end_both_ways(cell: Cell, runner: JobRunner, url: str) -> str:
    """Complete and cancel a response, and deliver that, as control does; return the secret."""

    async def deliver(store: Store) -> None:
        await Relay(store, EventsSettings(), failure_numbers).step()
        deliverer = Deliverer(store, SystemClock(), HOOKS, Sender(HOOKS))
        async with asyncio.TaskGroup() as group:
            running = group.create_task(deliverer.run())
            await asyncio.sleep(1)
            running.cancel()

    async def add_endpoint(store: Store) -> str:
        types = ("response.completed", "response.cancelled")
        wanted = NewEndpoint(AccountId(cell.account), Shape.OPENAI, "mine", url, types)
        return shown((await EndpointBook(store, HOOKS).create(wanted)).secrets[0])

    secret = cell.run(add_endpoint)
    client = sdk(cell)
    done = queued(client)
    eventually(lambda: cell.get(f"{V1}/{done}").json()["status"] == "completed")
    runner.hold()
    client.responses.cancel(queued(client))
    cell.run(deliver)
    return secret
