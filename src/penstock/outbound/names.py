"""Resolves names: a port, and the machine's own resolver on threads of its own."""

import asyncio
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

LookUp = Callable[[str, int], list[str]]


def look_up_addresses(host: str, port: int) -> list[str]:
    """Return the addresses that the machine's resolver gives; blocks until it does."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


class Resolver(Protocol):
    """A port: the addresses of a name, best first. OSError if it has none."""

    async def addresses(self, account: str, host: str, port: int) -> Sequence[str]: ...


class SystemResolver:
    """The machine's own resolver, on threads of its own, a bounded number of them per account.

    A lookup cannot be cancelled: a name that hangs keeps its thread after its caller has timed
    out. So an account's share counts running lookups and not waiting callers.
    """

    def __init__(
        self, at_once_max: int, per_account_max: int, look_up: LookUp = look_up_addresses
    ) -> None:
        self._threads = ThreadPoolExecutor(at_once_max, "outbound-names")
        self._per_account_max = per_account_max
        self._look_up = look_up
        self._shares: dict[str, _Share] = {}

    async def addresses(self, account: str, host: str, port: int) -> Sequence[str]:
        share = self._shares.setdefault(account, _Share(self._per_account_max))
        share.users += 1
        try:
            await share.free.acquire()
        except BaseException:
            self._leave(account, share)
            raise
        loop = asyncio.get_running_loop()
        lookup = loop.run_in_executor(self._threads, self._look_up, host, port)
        lookup.add_done_callback(lambda _: self._release(account, share))
        found = await asyncio.shield(lookup)
        return list(dict.fromkeys(found))

    def _release(self, account: str, share: "_Share") -> None:
        share.free.release()
        self._leave(account, share)

    def _leave(self, account: str, share: "_Share") -> None:
        share.users -= 1
        if not share.users:
            del self._shares[account]


class _Share:
    """One account's lookups: how many more may run, and how many run or wait."""

    def __init__(self, at_once_max: int) -> None:
        self.free = asyncio.Semaphore(at_once_max)
        self.users = 0
