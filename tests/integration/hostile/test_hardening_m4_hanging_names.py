"""One account's webhook names hang in DNS: the webhooks of other accounts are still delivered."""

import asyncio
import threading
from collections.abc import Iterator

import msgspec
import pytest
from tests.integration.cells.webhook_receiver import receiving

from penstock.events import WebhookSettings
from penstock.outbound import Sender
from penstock.outbound.names import SystemResolver

SETTINGS = WebhookSettings(
    allowed_networks=("127.0.0.0/8",), timeout_seconds=2.0, lease_seconds=10.0
)
HANGING = 64


class HangingNames:
    """A resolver's function: names that begin with `hang` give no answer until `end`."""

    def __init__(self) -> None:
        self._ended = threading.Event()
        self.running = 0

    def look_up(self, host: str, port: int) -> list[str]:
        del port
        if host.startswith("hang"):
            self.running += 1
            self._ended.wait()
        return ["127.0.0.1"]

    def end(self) -> None:
        self._ended.set()


@pytest.fixture
def names() -> Iterator[HangingNames]:
    made = HangingNames()
    yield made
    made.end()


def make_sender(names: HangingNames, settings: WebhookSettings = SETTINGS) -> Sender:
    resolver = SystemResolver(
        settings.lookups_at_once_max, settings.lookups_per_account_max, names.look_up
    )
    return Sender(settings, resolver)


async def test_names_that_hang_leave_threads_for_other_accounts(names: HangingNames) -> None:
    sender = make_sender(names)
    async with receiving() as receiver, asyncio.TaskGroup() as group:
        hanging = [
            group.create_task(sender.post("first", f"https://hang{n}.example/", [], b"{}"))
            for n in range(HANGING)
        ]
        await asyncio.sleep(0.2)
        for _ in range(5):
            sent = await sender.post("second", f"http://good.example:{receiver.port}/", [], b"{}")
            assert (sent.status, sent.problem) == (200, "")
        assert {(await each).problem for each in hanging} == {"no answer in time"}
        # Their callers gave up, and the threads still hang: it must stay this account's share.
        sent = await sender.post("second", f"http://good.example:{receiver.port}/", [], b"{}")
        assert sent.status == 200
    assert names.running == SETTINGS.lookups_per_account_max


async def test_an_account_is_served_again_when_its_names_answer(names: HangingNames) -> None:
    sender = make_sender(names, msgspec.structs.replace(SETTINGS, timeout_seconds=0.2))
    async with receiving() as receiver:
        url = f"http://hang.example:{receiver.port}/"
        posts = [sender.post("first", url, [], b"{}") for _ in range(HANGING)]
        assert all(sent.status is None for sent in await asyncio.gather(*posts))
        names.end()
        patient = make_sender(names)
        many = [patient.post("first", url, [], b"{}") for _ in range(HANGING)]
        assert all(sent.status == 200 for sent in await asyncio.gather(*many))
        assert (await sender.post("first", url, [], b"{}")).status == 200
