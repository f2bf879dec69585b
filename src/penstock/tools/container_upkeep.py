"""Tends the containers of all accounts: ends rows, deletes what is old, and takes what is due."""

from datetime import date
from typing import Final

import msgspec

from penstock.errors import NotFound
from penstock.records.account import AccountId
from penstock.store import Store, Transaction
from penstock.tools.container_book import ContainerBook
from penstock.tools.container_ids import ContainerId
from penstock.tools.container_queries import SQL, AccountContainer, container_from
from penstock.tools.settings import ToolsSettings

_AT_ONCE: Final = 200
# Containers that run are charged about once a minute.
_CHARGED_SECONDS: Final = 50.0
_FIRST: Final = "00000000-0000-0000-0000-000000000000"
_MS_PER_MINUTE: Final = 60_000
_MB_PER_GB: Final = 1024


class ContainerCharge(msgspec.Struct, frozen=True):
    """What a container used since it was charged last; `at` is the end of that time."""

    container: ContainerId
    account: AccountId
    memory_mb: int
    milliseconds: int
    exec_milliseconds: int
    nanousd: int
    at: float


class ContainerUse(msgspec.Struct, frozen=True):
    """What an account's containers used in some days."""

    account: AccountId
    containers: int
    milliseconds: int
    exec_milliseconds: int
    charge_nanousd: int


class ContainerUpkeep:
    """For control and operators. The only writer of `container_usage`."""

    def __init__(self, store: Store, book: ContainerBook, settings: ToolsSettings) -> None:
        self._store = store
        self._book = book
        self._price = settings.nanousd_per_gb_minute
        self._kept_seconds = settings.container_files_kept_seconds

    async def end_old(self) -> int:
        """Note which containers have ended, by time or with their host; return how many."""
        count = 0
        while ids := await self._ended_by_time():
            count += await self._book.expire(ids)
        boots = {offer.url: offer.status.boot for offer in await self._book.hosts.offers()}
        after = _FIRST
        while boots:
            async with self._store.statement() as statement:
                rows = await statement.fetch(SQL["of_hosts"], (list(boots), after, _AT_ONCE))
            if not rows:
                break
            after = rows[-1][0]
            count += await self._book.expire(row[0] for row in rows if boots[row[1]] != row[2])
        return count

    async def drop_old(self) -> int:
        """Delete copies of files that have expired, then rows without files; return how many."""
        count = 0
        while dropped := await self._book.files.drop_expired():
            count += dropped
        async with self._store.statement() as statement:
            return count + await statement.execute(
                SQL["drop_ended"], (self._kept_seconds, _AT_ONCE)
            )

    async def take_uncharged(self, tx: Transaction) -> list[ContainerCharge]:
        """Write what some containers used, and return it.

        The caller counts it in limits in the same transaction; then nothing is charged twice.
        """
        rows = await tx.fetch(SQL["take_uncharged"], (_CHARGED_SECONDS, _AT_ONCE))
        charges = [
            ContainerCharge(
                container=id,
                account=account,
                memory_mb=memory_mb,
                milliseconds=after_ms - before_ms,
                exec_milliseconds=exec_ms,
                nanousd=cost_nanousd_of(self._price, memory_mb, before_ms, after_ms),
                at=at,
            )
            for id, account, memory_mb, before_ms, after_ms, exec_ms, at in rows
        ]
        if charges:
            columns = zip(
                *(
                    (
                        *(each.at, each.account, each.container, each.memory_mb),
                        *(each.milliseconds, each.exec_milliseconds, each.nanousd),
                    )
                    for each in charges
                ),
                strict=True,
            )
            await tx.execute(SQL["add_usage"], [list(column) for column in columns])
        return charges

    async def usage(
        self, since: date, before: date, account: AccountId | None = None, limit: int = 1000
    ) -> list[ContainerUse]:
        """Return what containers used in the days from `since` up to `before`, by account."""
        async with self._store.statement() as statement:
            rows = await statement.fetch(
                SQL["usage_by_account"], (since, before, account, account, limit)
            )
        return [ContainerUse(*row) for row in rows]

    async def page(
        self,
        account: AccountId | None,
        after: ContainerId | None,
        limit: int,
        *,
        with_ended: bool,
    ) -> list[AccountContainer]:
        """Return containers of all accounts or one, newest first."""
        facts = (account, account, with_ended, after, after, limit)
        async with self._store.statement() as statement:
            rows = await statement.fetch(SQL["cell_page"], facts)
        return [container_from(row) for row in rows]

    async def stop(self, id: ContainerId) -> AccountContainer:
        """End a container of any account; the copies of its files stay as long as they would."""
        async with self._store.statement() as statement:
            row = await statement.fetch_one(SQL["find_any"], (id,))
        if row is None:
            raise NotFound("There is no such container.")
        container = container_from(row)
        await self._book.stop(container)
        return container

    async def forget(self, account: AccountId) -> None:
        """End all containers of an account, and delete the copies of their files."""
        while True:
            async with self._store.statement() as statement:
                rows = await statement.fetch(SQL["of_account"], (account, _AT_ONCE))
            if not rows:
                break
            for row in rows:
                await self._book.end_and_forget(container_from(row))
        await self._book.files.forget(account)
        async with self._store.statement() as statement:
            await statement.execute(SQL["unname"], (account,))

    async def _ended_by_time(self) -> list[ContainerId]:
        async with self._store.statement() as statement:
            rows = await statement.fetch(SQL["ended_by_time"], (_AT_ONCE,))
        return [row[0] for row in rows]


def cost_nanousd_of(
    nanousd_per_gb_minute: int, memory_mb: int, before_ms: int, after_ms: int
) -> int:
    """Return what a container's time costs between two points of its life. Pure.

    The difference of two sums: however often it is charged, all charges add up to the same.
    """

    def up_to(milliseconds: int) -> int:
        gb_minutes = _MB_PER_GB * _MS_PER_MINUTE
        return nanousd_per_gb_minute * memory_mb * milliseconds // gb_minutes

    return up_to(after_ms) - up_to(before_ms)
