"""Webhooks against a real receiver and a real Postgres: each arrives, with one id."""

import asyncio
import contextlib
import ssl
import subprocess
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec
import pytest
from openai import OpenAI
from tests.integration.cells.webhook_receiver import Receiver, receiving, status

from penstock.clock import SystemClock
from penstock.errors import NotFound, OverLimit
from penstock.events import (
    Endpoint,
    EndpointBook,
    EndpointChange,
    EventsSettings,
    NewEndpoint,
    Shape,
    WebhookSettings,
    read_figures,
)
from penstock.events.deliverer import Deliverer
from penstock.events.relay import Relay
from penstock.events.retention import EventRetention
from penstock.events.signatures import shown
from penstock.ingress.pages.subscription_pages import failure_numbers
from penstock.outbound import Sender
from penstock.policy import AccountBook
from penstock.queue import outbox
from penstock.records.account import AccountId
from penstock.store import Store

QUICK = WebhookSettings(
    allowed_networks=("127.0.0.0/8",),
    poll_seconds=0.02,
    timeout_seconds=0.5,
    lease_seconds=1.0,
    retry_seconds_min=0.01,
    retry_seconds_max=0.05,
)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as opened:
        yield opened


@pytest.fixture
async def account(store: Store) -> AccountId:
    return (await AccountBook(store).create("first")).id


@contextlib.asynccontextmanager
async def delivering(
    store: Store, settings: WebhookSettings = QUICK, sender: Sender | None = None
) -> AsyncIterator[None]:
    deliverer = Deliverer(store, SystemClock(), settings, sender or Sender(settings))
    async with asyncio.TaskGroup() as group:
        running = group.create_task(deliverer.run())
        yield
        running.cancel()


async def add_endpoint(
    store: Store, account: AccountId, url: str, settings: WebhookSettings = QUICK
) -> Endpoint:
    wanted = NewEndpoint(account, Shape.OPENAI, "mine", url, ("batch.completed",))
    return await EndpointBook(store, settings).create(wanted)


async def happen(store: Store, account: AccountId, count: int = 1) -> None:
    events = [
        outbox.NewEvent(account, "batch.completed", {"id": f"batch_{n}"}) for n in range(count)
    ]
    async with store.transaction() as transaction:
        await outbox.add(transaction, events)
    await Relay(store, EventsSettings(), failure_numbers).step()


async def pending(store: Store) -> int:
    async with store.transaction() as transaction:
        row = await transaction.fetch_one("select count(*) from deliveries")
    assert row is not None
    return int(row[0])


async def outcomes(store: Store) -> dict[str, int]:
    async with store.transaction() as transaction:
        return (await read_figures(transaction)).outcomes


async def until_none_is_pending(store: Store) -> None:
    async with asyncio.timeout(20):
        while await pending(store):  # noqa: ASYNC110 - the rows change in Postgres
            await asyncio.sleep(0.02)


async def test_each_event_arrives_once_and_openai_verifies_it(
    store: Store, account: AccountId, receiver: Receiver
) -> None:
    endpoint = await add_endpoint(store, account, receiver.url)
    await happen(store, account, 20)
    async with delivering(store):
        await receiver.wait_for(20)
        await until_none_is_pending(store)
    assert len({each.id for each in receiver.received}) == len(receiver.received) == 20
    client = OpenAI(api_key="none", base_url="http://127.0.0.1:9/v1")
    for each in receiver.received:
        assert each.line == "POST /hook?a=b HTTP/1.1"
        event = client.webhooks.unwrap(each.body, each.headers, secret=shown(endpoint.secrets[0]))
        assert event.id == each.id
    assert await outcomes(store) == {"delivered": 20}


async def test_a_crash_between_sending_and_noting_sends_again_with_the_same_id(
    store: Store, account: AccountId, receiver: Receiver
) -> None:
    await add_endpoint(store, account, receiver.url)
    await happen(store, account)
    receiver.answers.append(None)
    async with delivering(store):
        await receiver.wait_for(1)
    assert await pending(store) == 1
    async with delivering(store):
        await receiver.wait_for(2)
        await until_none_is_pending(store)
    first, second = receiver.received
    assert (first.id, first.body) == (second.id, second.body)


async def test_a_failure_is_tried_again_with_the_same_id_and_body(
    store: Store, account: AccountId, receiver: Receiver
) -> None:
    await add_endpoint(store, account, receiver.url)
    receiver.answers.extend([status(500), status(404), b"not http\r\n\r\n"])
    await happen(store, account)
    async with delivering(store):
        await receiver.wait_for(4)
        await until_none_is_pending(store)
    assert len({(each.id, each.body) for each in receiver.received}) == 1
    assert await outcomes(store) == {"retried": 3, "delivered": 1}


async def test_what_fails_too_often_is_given_up(
    store: Store, account: AccountId, receiver: Receiver
) -> None:
    settings = msgspec.structs.replace(QUICK, attempts_max=3)
    await add_endpoint(store, account, receiver.url)
    receiver.answers.extend([status(500)] * 10)
    await happen(store, account)
    async with delivering(store, settings):
        await until_none_is_pending(store)
    assert len(receiver.received) == 3
    assert await outcomes(store) == {"retried": 2, "given_up": 1}


async def test_a_redirect_is_a_failure_and_is_not_followed(
    store: Store, account: AccountId, receiver: Receiver
) -> None:
    async with receiving() as elsewhere:
        await add_endpoint(store, account, receiver.url)
        receiver.answers.append(status(307, f"location: {elsewhere.url}"))
        await happen(store, account)
        async with delivering(store):
            await receiver.wait_for(2)
            await until_none_is_pending(store)
        assert elsewhere.received == []
    assert await outcomes(store) == {"retried": 1, "delivered": 1}


async def test_410_disables_the_endpoint_until_its_account_enables_it(
    store: Store, account: AccountId, receiver: Receiver
) -> None:
    book = EndpointBook(store, QUICK)
    endpoint = await add_endpoint(store, account, receiver.url)
    receiver.answers.extend([status(410)] * 4)
    await happen(store, account, 10)
    async with delivering(store):
        await until_none_is_pending(store)
    found = await book.find(account, Shape.OPENAI, endpoint.public_id)
    assert (found.is_enabled, found.disabled_reason) == (False, "it answered 410")
    await happen(store, account)
    assert await pending(store) == 0
    change = EndpointChange(is_enabled=True)
    found = await book.change(account, Shape.OPENAI, endpoint.public_id, change)
    assert (found.is_enabled, found.disabled_reason) == (True, "")
    await happen(store, account)
    assert await pending(store) == 1


async def test_both_secrets_sign_while_the_new_one_takes_over(
    store: Store, account: AccountId, receiver: Receiver
) -> None:
    book = EndpointBook(store, QUICK)
    old = await add_endpoint(store, account, receiver.url)
    new = await book.rotate(account, Shape.OPENAI, old.public_id, keeps_old=True)
    await happen(store, account)
    async with delivering(store):
        (received, *_) = await receiver.wait_for(1)
        await until_none_is_pending(store)
        client = OpenAI(api_key="none", base_url="http://127.0.0.1:9/v1")
        for secret in (new.secrets[0], old.secrets[0]):
            client.webhooks.unwrap(received.body, received.headers, secret=shown(secret))
        assert new.secrets[0] != old.secrets[0]
        await book.rotate(account, Shape.OPENAI, old.public_id, keeps_old=False)
        await happen(store, account)
        await receiver.wait_for(2)
    assert receiver.received[1].headers["webhook-signature"].count("v1,") == 1


class Rebinding:
    """A name that is public when it is judged, and leads inside whenever it is asked again."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def addresses(self, account: str, host: str, port: int) -> Sequence[str]:
        del account, host, port
        self.asked += 1
        return [self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]]


async def test_the_address_that_was_judged_is_the_one_connected_to(receiver: Receiver) -> None:
    # The allowed address stands for a public one; what the name says next must not matter.
    settings = msgspec.structs.replace(QUICK, allowed_networks=("127.0.0.1/32",))
    names = Rebinding("127.0.0.1", "127.0.0.2")
    sender = Sender(settings, names)
    url = f"http://hooks.example:{receiver.port}/"
    assert (await sender.post("acme", url, [("webhook-id", "evt_1")], b"{}")).status == 200
    assert names.asked == 1
    assert receiver.received[0].headers["host"] == f"hooks.example:{receiver.port}"
    refused = await sender.post("acme", url, [("webhook-id", "evt_1")], b"{}")
    assert (refused.status, refused.is_taken) == (None, False)
    assert len(receiver.received) == 1


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for a name that signs itself, and its key, in one file."""
    path, other = tmp_path / "hooks.pem", tmp_path / "certificate.pem"
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=h"
        f" -addext subjectAltName=DNS:hooks.example -keyout {path} -out {other}"
    )
    subprocess.run(command.split(), check=True, capture_output=True)
    path.write_bytes(path.read_bytes() + other.read_bytes())
    return path


async def test_a_certificate_must_be_the_names_whatever_address_it_has(certificate: Path) -> None:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate)
    settings = msgspec.structs.replace(QUICK, ca_file=str(certificate), timeout_seconds=0.9)
    sender = Sender(settings, Rebinding("127.0.0.1"))
    async with receiving(tls) as receiver:
        sent = await sender.post("acme", f"https://hooks.example:{receiver.port}/", [], b"{}")
        assert sent.status == 200
        assert receiver.received[0].headers["host"] == f"hooks.example:{receiver.port}"
        refused = await sender.post("acme", f"https://other.example:{receiver.port}/", [], b"{}")
        assert refused.status is None
        assert refused.problem.startswith("TLS")
    assert len(receiver.received) == 1


async def test_a_name_that_leads_inside_is_never_connected_to(receiver: Receiver) -> None:
    sender = Sender(msgspec.structs.replace(QUICK, allowed_networks=()))
    for host in ("localhost", "127.0.0.1", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]"):
        for scheme in ("http", "https"):
            sent = await sender.post("acme", f"{scheme}://{host}:{receiver.port}/", [], b"{}")
            assert sent.status is None
    assert receiver.received == []


async def test_one_endpoint_that_hangs_does_not_hold_up_the_others(
    store: Store, account: AccountId, receiver: Receiver
) -> None:
    async with receiving() as hanging:
        hanging.answers.extend([None] * 100)
        await add_endpoint(store, account, hanging.url)
        await happen(store, account, 30)
        other = (await AccountBook(store).create("second")).id
        await add_endpoint(store, other, receiver.url)
        await happen(store, other, 5)
        settings = msgspec.structs.replace(
            QUICK, at_once_max=6, endpoint_at_once_max=4, timeout_seconds=20.0, lease_seconds=30.0
        )
        async with delivering(store, settings):
            await receiver.wait_for(5, seconds=10)
        assert len(hanging.received) == 4


async def test_accounts_see_only_their_own_endpoints_and_a_bounded_number(
    store: Store, account: AccountId
) -> None:
    settings = msgspec.structs.replace(QUICK, endpoints_max=2)
    book = EndpointBook(store, settings)
    other = (await AccountBook(store).create("second")).id
    mine = await add_endpoint(store, account, "https://hooks.example/", settings)
    for act in (
        book.find(other, Shape.OPENAI, mine.public_id),
        book.delete(other, Shape.OPENAI, mine.public_id),
        book.rotate(other, Shape.OPENAI, mine.public_id, keeps_old=True),
        book.change(other, Shape.OPENAI, mine.public_id, EndpointChange(name="theirs")),
        book.find(account, Shape.WORKERS_AI, mine.public_id),
        book.find(account, Shape.OPENAI, "we_nonsense"),
    ):
        with pytest.raises(NotFound):
            await act
    assert await book.list(other, Shape.OPENAI) == ()
    made = await asyncio.gather(
        *(add_endpoint(store, account, "https://a.example/", settings) for _ in range(4)),
        return_exceptions=True,
    )
    assert sum(isinstance(each, OverLimit) for each in made) == 3
    assert len(await book.list(account, Shape.OPENAI)) == 2


async def test_what_was_to_be_delivered_goes_with_its_endpoint_or_its_time(
    store: Store, account: AccountId
) -> None:
    book = EndpointBook(store, QUICK)
    endpoint = await add_endpoint(store, account, "https://hooks.example/")
    await happen(store, account, 3)
    await book.delete(account, Shape.OPENAI, endpoint.public_id)
    assert await pending(store) == 0
    await add_endpoint(store, account, "https://hooks.example/")
    await happen(store, account, 3)
    async with store.transaction() as transaction:
        await transaction.execute(
            "update deliveries set created_at = now() - interval '400 hours' where id in"
            " (select id from deliveries limit 2)"
        )
        await transaction.execute(
            "update events set logged_at = now() - interval '25 hours' where sequence <= 4"
        )
    dropped = await EventRetention(store, EventsSettings(), QUICK).drop_old()
    assert dropped == 4 + 2
    assert await pending(store) == 1


async def test_relays_that_race_move_an_event_once(store: Store, account: AccountId) -> None:
    await add_endpoint(store, account, "https://hooks.example/")
    async with store.transaction() as transaction:
        await outbox.add(
            transaction, [outbox.NewEvent(account, "batch.completed", {"id": "batch_1"})]
        )
    relays = [Relay(store, EventsSettings(), failure_numbers) for _ in range(4)]
    moved = await asyncio.gather(*(relay.step() for relay in relays))
    assert sum(moved) == 1
    assert await pending(store) == 1
    async with store.transaction() as transaction:
        rows = await transaction.fetch("select sequence, data from events")
    assert rows == [(1, {"id": "batch_1"})]
