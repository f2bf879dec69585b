"""An object store in memory."""

import asyncio
from collections.abc import Sequence

from penstock.errors import StoreUnavailable
from penstock.records.account import AccountId
from penstock.store import ContentSeal

ACCOUNT = AccountId("acme")
KEY = bytes(32)


class Shelf:
    """Objects in memory, one of which may be out of reach."""

    def __init__(self, broken: str = "") -> None:
        self.values: dict[str, bytes] = {}
        self.most_at_once = 0
        self._at_once = 0
        self._broken = broken

    async def put(self, name: str, data: bytes) -> None:
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        await asyncio.sleep(0)
        self._at_once -= 1
        if name == self._broken:
            raise StoreUnavailable
        self.values[name] = data

    async def get(self, name: str) -> bytes:
        return self.values[name]

    async def seal_of(self, account: AccountId) -> ContentSeal:
        return ContentSeal(KEY)

    async def delete(self, names: Sequence[str]) -> None:
        for name in names:
            del self.values[name]
