"""Remembers values that were read lately: an agent reads the same chain again at every turn."""

from collections import OrderedDict
from typing import Final

from penstock.records.account import AccountId
from penstock.store.kept_values import KeptValues

# About what an entry takes besides its value: the key's texts and the table's share.
_ENTRY_BYTES: Final = 400
_TAG_BYTES: Final = 16

_Key = tuple[AccountId, str, str | bytes]


class RecentValues:
    """Reads values as `KeptValues` does, and keeps `bytes_max` of them decrypted in memory.

    A kept value never changes. Whoever reads one has just read its row, so a value whose row was
    deleted is never served from here.
    """

    def __init__(self, values: KeptValues, bytes_max: int) -> None:
        self._values = values
        self._bytes_max = bytes_max
        self._bytes = 0
        self._recent: OrderedDict[_Key, bytes] = OrderedDict()

    async def get(self, account: AccountId, owner: str, name: str, inline: bytes) -> bytes:
        """Return a value from memory, or as `KeptValues.get` does."""
        # An object's name ends with its digest, and an encrypted value with its tag.
        key = (account, owner, name or inline[-_TAG_BYTES:])
        known = self._recent.get(key)
        if known is not None:
            self._recent.move_to_end(key)
            return known
        value = await self._values.get(account, owner, name, inline)
        if value and key not in self._recent:
            self._add(key, value)
        return value

    def _add(self, key: _Key, value: bytes) -> None:
        self._recent[key] = value
        self._bytes += len(value) + _ENTRY_BYTES
        while self._bytes > self._bytes_max:
            _, oldest = self._recent.popitem(last=False)
            self._bytes -= len(oldest) + _ENTRY_BYTES
