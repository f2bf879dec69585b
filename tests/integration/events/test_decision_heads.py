"""Heads of the chains of decisions, sent to an address outside and signed."""

import base64
from pathlib import Path

import msgspec
import openai
from tests.integration.cells.webhook_receiver import receiving, status
from tests.integration.contracts.decision_worker import CLOCK, DecisionWorker, tamper, verify

from penstock.contracts.decision_book import DecisionBook
from penstock.contracts.settings import ContractsSettings
from penstock.events.decision_heads import DecisionHeads, HeadsEvent
from penstock.events.settings import WebhookSettings
from penstock.outbound import Sender
from penstock.store import Store

_SECRET = "whsec_" + base64.b64encode(b"s" * 32).decode()
_LOCAL = WebhookSettings(allowed_networks=("127.0.0.0/8",))


def heads_to(url: str, store: Store, webhooks: WebhookSettings = _LOCAL) -> DecisionHeads:
    settings = ContractsSettings(heads_url=url, heads_secret=_SECRET)
    return DecisionHeads(DecisionBook(store, CLOCK), Sender(webhooks), settings, CLOCK)


async def test_each_chain_is_sent_once_and_signed(store: Store, tmp_path: Path) -> None:
    worker, other = DecisionWorker(store, tmp_path), DecisionWorker(store, tmp_path)
    worker.decide(3)
    other.decide(5)
    await worker.drain.empty()
    await other.drain.empty()
    async with receiving() as receiver:
        heads = heads_to(receiver.url, store)
        assert await heads.send()
        assert await heads.send()
        assert len(receiver.received) == 1
        got = receiver.received[0]
        client = openai.OpenAI(api_key="none", webhook_secret=_SECRET)
        client.webhooks.verify_signature(got.body, got.headers)
        event = msgspec.json.decode(got.body, type=HeadsEvent)
        assert {(head.holder, head.sequence) for head in event.heads} == {
            (worker.journal.holder, 3),
            (other.journal.holder, 5),
        }
        worker.decide(1)
        await worker.drain.empty()
        assert await heads.send()
        [head] = msgspec.json.decode(receiver.received[1].body, type=HeadsEvent).heads
        assert (head.holder, head.sequence) == (worker.journal.holder, 4)


async def test_what_was_not_taken_is_sent_again(store: Store, tmp_path: Path) -> None:
    worker = DecisionWorker(store, tmp_path)
    worker.decide(2)
    await worker.drain.empty()
    async with receiving() as receiver:
        receiver.answers.append(status(500))
        heads = heads_to(receiver.url, store)
        assert not await heads.send()
        assert await heads.send()
        bodies = [msgspec.json.decode(each.body, type=HeadsEvent) for each in receiver.received]
    assert bodies[0].heads == bodies[1].heads


async def test_a_private_address_is_not_reached_unless_allowed(
    store: Store, tmp_path: Path
) -> None:
    worker = DecisionWorker(store, tmp_path)
    worker.decide()
    await worker.drain.empty()
    async with receiving() as receiver:
        assert not await heads_to(receiver.url, store, WebhookSettings()).send()
        assert receiver.received == []


async def test_a_log_that_was_computed_anew_is_found_by_what_was_received(
    store: Store, dsn: str, tmp_path: Path
) -> None:
    worker = DecisionWorker(store, tmp_path)
    worker.decide(6)
    await worker.drain.empty()
    async with receiving() as receiver:
        await heads_to(receiver.url, store).send()
        held = msgspec.json.decode(receiver.received[0].body, type=HeadsEvent).heads
    # Somebody who owns the database drops all rows, and all that it says was sent.
    tamper(dsn, "delete from decisions; delete from decision_heads")
    assert (await verify(store)).faults == []
    [fault] = (await verify(store, held)).faults
    assert (fault.holder, fault.sequence) == (worker.journal.holder, 1)
