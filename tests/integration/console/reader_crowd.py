"""People who watch a live page of the console, each with a key of their own."""

import asyncio
import time
from typing import Final

import httpx

from penstock.policy import KeyBook
from penstock.records.account import Role
from penstock.store import Store, StoreSettings

READERS: Final = 50
LIVE_SECONDS: Final = 2.0
# All of them sign in from one address.
CROWD_SETTINGS: Final = {"control.console_sign_ins_per_minute": 1000}


async def make_keys(dsn: str) -> list[str]:
    """Make an auditor's key for each reader, and return the secrets."""
    store = Store(StoreSettings(dsn=dsn))
    await store.open()
    try:
        book = KeyBook(store)
        return [
            (await book.create(Role.AUDITOR, None, f"reader {number}"))[1]
            for number in range(READERS)
        ]
    finally:
        await store.close()


class ReaderCrowd:
    """Readers who have signed in; `pages` counts the parts of pages that they were answered."""

    def __init__(self, client: httpx.AsyncClient, cookies: list[str]) -> None:
        self._client = client
        self._cookies = cookies
        self.pages = 0

    async def watch(self, path: str, seconds: float) -> None:
        """Renew every reader's page every two seconds, for some time."""
        until = time.monotonic() + seconds
        async with asyncio.TaskGroup() as group:
            for number, cookie in enumerate(self._cookies):
                group.create_task(self._renew(path, cookie, number, until))

    async def _renew(self, path: str, cookie: str, number: int, until: float) -> None:
        # People do not begin together.
        await asyncio.sleep(LIVE_SECONDS * number / len(self._cookies))
        while time.monotonic() < until:
            headers = {"cookie": cookie, "hx-request": "true"}
            answer = await self._client.get(path, headers=headers)
            assert answer.status_code == 200
            self.pages += 1
            await asyncio.sleep(LIVE_SECONDS)


async def sign_in_all(client: httpx.AsyncClient, secrets: list[str]) -> ReaderCrowd:
    """Sign in with each key; the client's base address is control's."""
    cookies = []
    for secret in secrets:
        origin = str(client.base_url).rstrip("/")
        answer = await client.post(
            "/console/sign-in", data={"key": secret}, headers={"origin": origin}
        )
        assert answer.status_code == 303
        client.cookies.clear()
        cookies.append(str(answer.headers["set-cookie"]).partition(";")[0])
    return ReaderCrowd(client, cookies)
