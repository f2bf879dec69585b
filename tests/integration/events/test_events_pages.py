"""Webhook endpoints by openai's SDK, subscriptions by cloudflare's, and the stream over HTTP."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest
from cloudflare import Cloudflare
from tests.integration.cells.gateway_cell import CHAT, Cell, CellFactory
from tests.integration.cells.gateway_process import eventually
from tests.integration.cells.happened_events import happen
from tests.integration.cells.webhook_receiver import Receiver, receiving

from penstock.policy import KeyBook
from penstock.records.account import AccountId
from penstock.store import Store

SUBSCRIPTIONS = "event_subscriptions/subscriptions"
HOOK = "https://hooks.example/penstock"


@pytest.fixture(scope="module")
def told(cells: CellFactory) -> Iterator[Cell]:
    settings = {
        "webhooks.allowed_networks": ["127.0.0.0/8"],
        "webhooks.endpoints_max": 5,
        "events.poll_seconds": 0.02,
        "events.keepalive_seconds": 0.2,
        "events.streams_per_account_max": 2,
    }
    with cells.open(settings) as cell:
        cell.set_up(CHAT)
        yield cell


@pytest.fixture
def client(told: Cell) -> openai.OpenAI:
    return openai.OpenAI(api_key=told.key, base_url=f"{told.gateway.url}/v1", max_retries=0)


def test_openai_manages_endpoints(client: openai.OpenAI) -> None:
    made = client.webhooks.create(name="mine", url=HOOK, event_types=["batch.completed"])
    assert made.signing_secret.startswith("whsec_")
    found = client.webhooks.retrieve(made.id)
    assert "signing_secret" not in found.to_dict()
    assert (found.name, found.url, found.event_types) == ("mine", HOOK, ["batch.completed"])
    changed = client.webhooks.update(made.id, name="yours", event_types=["batch.failed"])
    assert (changed.name, changed.url, changed.event_types) == ("yours", HOOK, ["batch.failed"])
    rotated = client.webhooks.rotate_secret(made.id, keep_old_secret_active_for_24_hours=True)
    assert rotated.signing_secret != made.signing_secret
    assert client.webhooks.rotate_secret(made.id).signing_secret != rotated.signing_secret
    more = [
        client.webhooks.create(name=name, url=HOOK, event_types=["batch.completed"])
        for name in ("a", "b")
    ]
    listed = [each.id for each in client.webhooks.list(limit=2)]
    assert listed == [more[1].id, more[0].id, made.id]
    assert "batch.expired" in client.webhooks.event_types.list().data
    for each in listed:
        assert client.webhooks.delete(each).deleted
    with pytest.raises(openai.NotFoundError):
        client.webhooks.retrieve(made.id)


async def test_a_test_event_arrives_signed_and_its_status_is_told(told: Cell) -> None:
    async with receiving() as receiver, _client(told) as client:
        await _check_test_event(client, receiver)


async def _check_test_event(client: openai.AsyncOpenAI, receiver: Receiver) -> None:
    made = await client.webhooks.create(
        name="mine", url=receiver.url, event_types=["batch.completed"]
    )
    tested = await client.webhooks.test(made.id, event_type="batch.failed")
    assert (tested.status_code, tested.webhook_endpoint_id) == (200, made.id)
    (received,) = receiver.received
    event = client.webhooks.unwrap(received.body, received.headers, secret=made.signing_secret)
    assert event.type == "batch.failed"
    await client.webhooks.update(made.id, url="http://127.0.0.1:9/closed")
    with pytest.raises(openai.BadRequestError, match="could not be tested"):
        await client.webhooks.test(made.id, event_type="batch.failed")
    await client.webhooks.delete(made.id)


def _client(cell: Cell) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(api_key=cell.key, base_url=f"{cell.gateway.url}/v1", max_retries=0)


def test_what_cannot_be_an_endpoint_is_refused(told: Cell) -> None:
    wrong: list[tuple[dict[str, Any], str | None]] = [
        ({"url": HOOK, "event_types": ["batch.completed"]}, "name"),
        ({"name": "a\0", "url": HOOK, "event_types": ["batch.completed"]}, "name"),
        ({"name": "a", "url": HOOK, "event_types": []}, "event_types"),
        ({"name": "a", "url": HOOK, "event_types": ["video.completed"]}, "event_types[0]"),
        ({"name": "a", "url": "https://10.0.0.1/", "event_types": ["batch.failed"]}, "url"),
        ({"name": "a", "url": "http://169.254.169.254/", "event_types": ["batch.failed"]}, "url"),
        ({"name": "a", "url": "file:///etc/passwd", "event_types": ["batch.failed"]}, "url"),
    ]
    for body, param in wrong:
        answer = told.post("/v1/webhook_endpoints", body)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, param), body
    assert told.post("/v1/webhook_endpoints", b"{").status_code == 400
    assert told.post("/v1/webhook_endpoints", b" " * 70_000).status_code == 413
    assert told.get("/v1/webhook_endpoints/we_none").status_code == 404
    assert told.get("/v1/webhook_endpoints?limit=0").status_code == 400
    operator = {"authorization": f"Bearer {told.operator_key}"}
    assert told.get("/v1/webhook_endpoints", headers=operator).status_code == 403


def test_an_account_has_so_many_endpoints_and_not_more(told: Cell) -> None:
    account, _, key = told.add_account("many")
    headers = {"authorization": f"Bearer {key}"}
    body = {"name": "a", "url": HOOK, "event_types": ["job.failed"]}
    statuses = [
        told.post("/v1/webhook_endpoints", body, headers=headers).status_code for _ in range(6)
    ]
    assert statuses == [200] * 5 + [429]
    path = f"/client/v4/accounts/{account}/{SUBSCRIPTIONS}"
    assert told.post(path, _subscription(), headers=headers).status_code == 429


def _subscription(**more: object) -> dict[str, object]:
    return {
        "name": "mine",
        "events": ["cf.workersAi.model.batch.succeeded"],
        "source": {"type": "workersAi.model", "model_name": CHAT},
        "destination": {"type": "webhook", "url": HOOK},
        **more,
    }


def test_cloudflare_manages_subscriptions(told: Cell) -> None:
    client = Cloudflare(api_token=told.key, base_url=f"{told.gateway.url}/client/v4", max_retries=0)
    with client:
        asked: Any = _subscription()
        made = client.queues.subscriptions.create(account_id=told.account, **asked)
        assert made is not None
        found = client.queues.subscriptions.get(made.id, account_id=told.account)
        assert found is not None
        assert "signing_secret" not in found.to_dict()
        assert (found.name, found.enabled, found.created_at) == ("mine", True, made.created_at)
        changed = client.queues.subscriptions.update(
            made.id, account_id=told.account, enabled=False, name="yours"
        )
        assert changed is not None
        assert (changed.name, changed.enabled) == ("yours", False)
        listed = client.queues.subscriptions.list(account_id=told.account)
        assert [each.id for each in listed] == [made.id]
        client.queues.subscriptions.delete(made.id, account_id=told.account)
        assert list(client.queues.subscriptions.list(account_id=told.account)) == []


def test_a_subscription_is_checked_and_belongs_to_its_account(told: Cell) -> None:
    path = f"/client/v4/accounts/{told.account}/{SUBSCRIPTIONS}"
    queue = {"type": "queues.queue", "queue_id": "q"}
    for wrong in (
        _subscription(destination=queue),
        _subscription(events=["cf.workersAi.model.batch.done"]),
        _subscription(source={"type": "r2"}),
    ):
        answer = told.post(path, wrong)
        assert (answer.status_code, answer.json()["success"]) == (400, False)
    made = told.post(path, _subscription()).json()["result"]
    assert made["signing_secret"].startswith("whsec_")
    other, _, key = told.add_account("other")
    theirs = {"authorization": f"Bearer {key}"}
    assert told.get(f"{path}/{made['id']}", headers=theirs).status_code == 403
    there = f"/client/v4/accounts/{other}/{SUBSCRIPTIONS}"
    assert told.get(f"{there}/{made['id']}", headers=theirs).status_code == 404
    assert told.get(f"/v1/webhook_endpoints/{made['id']}").status_code == 404


Told = list[tuple[str, str, dict[str, Any]]]


def _read(answer: httpx.Response, count: int) -> Told:
    """The next events of a stream: id, type, data."""
    found: Told = []
    fields: dict[str, str] = {}
    for line in answer.iter_lines():
        name, _, value = line.partition(": ")
        if line and name:
            fields[name] = value
        elif not line and fields:
            found.append((fields["id"], fields["event"], json.loads(fields["data"])))
            fields = {}
        if len(found) == count:
            break
    return found


def test_a_stream_goes_on_where_it_was_left(told: Cell) -> None:
    account, _, key = told.add_account("reader")
    other, _, _ = told.add_account("foreign")
    headers = {"authorization": f"Bearer {key}"}
    url = f"{told.gateway.url}/v1/events"
    happen(told, account, "job.succeeded", "1", "2")
    happen(told, other, "job.succeeded", "theirs")
    happen(told, account, "job.failed", "3")
    with told.client.stream("GET", f"{url}?starting_after=0", headers=headers) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        first = _read(answer, 2)
    assert [(kind, event["data"]["id"]) for _, kind, event in first] == [
        ("job.succeeded", "1"),
        ("job.succeeded", "2"),
    ]
    resumed = {**headers, "last-event-id": first[-1][0]}
    with told.client.stream("GET", url, headers=resumed) as answer:
        (last,) = _read(answer, 1)
    assert (last[1], last[2]["type"], last[2]["object"]) == ("job.failed", "job.failed", "event")
    assert last[2]["id"].startswith("evt_")
    operator = {"authorization": f"Bearer {told.operator_key}"}
    with told.client.stream(
        "GET", f"{url}?starting_after=0&account={other}", headers=operator
    ) as answer:
        assert _read(answer, 1)[0][2]["data"] == {"id": "theirs"}


def test_a_stream_is_kept_alive_and_ends_with_its_key(told: Cell) -> None:
    account, _, _ = told.add_account("leaver")

    async def make_key(store: Store) -> tuple[str, str]:
        from penstock.records.account import Role

        key, secret = await KeyBook(store).create(Role.RUNTIME, AccountId(account), "soon gone")
        return key.id, secret

    key_id, secret = told.run(make_key)
    headers = {"authorization": f"Bearer {secret}"}
    with told.client.stream("GET", f"{told.gateway.url}/v1/events", headers=headers) as answer:
        lines = answer.iter_lines()
        assert [next(lines) for _ in range(4)] == [": connected", "", ": keepalive", ""]
        told.run(lambda store: KeyBook(store).revoke(key_id))
        assert set(lines) <= {": keepalive", ""}


def test_streams_of_an_account_are_bounded_and_their_places_come_back(told: Cell) -> None:
    _, _, key = told.add_account("greedy")
    headers = {"authorization": f"Bearer {key}"}
    url = f"{told.gateway.url}/v1/events"
    with (
        told.client.stream("GET", url, headers=headers),
        told.client.stream("GET", url, headers=headers),
    ):
        refused = told.client.get(url, headers=headers)
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "over_limit")

    def is_free() -> bool:
        with told.client.stream("GET", url, headers=headers) as answer:
            return answer.status_code == 200

    eventually(is_free)


def test_a_wrong_place_or_account_is_refused(told: Cell) -> None:
    for query in ("starting_after=x", "starting_after=-1", f"starting_after={'9' * 19}"):
        assert told.get(f"/v1/events?{query}").status_code == 400
    other, _, _ = told.add_account("not mine")
    assert told.get(f"/v1/events?account={other}").status_code == 403
    operator = {"authorization": f"Bearer {told.operator_key}"}
    assert told.get("/v1/events", headers=operator).status_code == 400
    nobody = told.client.get(f"{told.gateway.url}/v1/events")
    assert nobody.status_code == 401
