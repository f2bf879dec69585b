"""Creates, finds and ends containers. The only writer of `containers`, with the room's upkeep.

A row names the container's host and that host's boot, so that any gateway finds it by one lookup;
another boot means that it is gone. Every statement names the account, or a row found by it.
"""

import contextlib
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import msgspec

from penstock.clock import new_id
from penstock.errors import (
    ContainerExpired,
    InvalidRequest,
    NotFound,
    QuotaSpent,
)
from penstock.records.account import AccountId
from penstock.store import Store
from penstock.tools.container_files import ContainerFiles
from penstock.tools.container_ids import ContainerId
from penstock.tools.container_queries import SQL, AccountContainer, ContainerFile, container_from
from penstock.tools.sandbox_hosts import HOST_FAILURES, Placed, SandboxHosts, WantedContainer
from penstock.tools.settings import ToolsSettings

# A port: raises BudgetSpent if the account's money is spent.
CheckMoney = Callable[[AccountId], Awaitable[None]]

_MINUTE: Final = 60.0


class ContainerWish(msgspec.Struct, frozen=True, kw_only=True):
    """A container that a caller wants; None where it does not say."""

    name: str = ""
    memory_mb: int | None = None
    idle_minutes: int | None = None


class ContainerQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which containers to list: those after the container `after`."""

    limit: int
    after: ContainerId | None = None
    name: str | None = None
    is_oldest_first: bool = False


class ContainerBook:
    """An account's containers, for pages and for turns."""

    def __init__(
        self,
        store: Store,
        hosts: SandboxHosts,
        files: ContainerFiles,
        settings: ToolsSettings,
        check_money: CheckMoney,
    ) -> None:
        self.files = files
        self.hosts = hosts
        self.check_money = check_money
        self._store = store
        self._settings = settings

    async def create(self, account: AccountId, wish: ContainerWish) -> AccountContainer:
        """Start a container on a sandbox host, and write its row."""
        minutes = wish.idle_minutes or self._settings.container_idle_minutes
        if minutes > self._settings.container_idle_minutes_max:
            raise InvalidRequest(
                "`expires_after.minutes` is at most"
                f" {self._settings.container_idle_minutes_max} here.",
                param="expires_after",
            )
        await self.check_money(account)
        is_shared = await self._check_count(account)
        id = ContainerId(new_id())
        wanted = WantedContainer(
            memory_mb=wish.memory_mb,
            idle_seconds=minutes * _MINUTE,
            life_seconds=self._settings.life_minutes_max * _MINUTE,
        )
        placed = await self.hosts.place(id, wanted, is_shared=is_shared)
        try:
            await self._insert(account, id, (wish.name, minutes), placed)
        except BaseException:
            # Where this fails too, the host ends the container when it is idle.
            with contextlib.suppress(*HOST_FAILURES):
                await self.hosts.host(placed.offer.url).end(id)
            raise
        return await self.find(account, id)

    async def find(self, account: AccountId, id: ContainerId) -> AccountContainer:
        """Return a container that runs; ContainerExpired if the account's own has ended.

        NotFound alike if it never was, was deleted, or is another account's.
        """
        container = await self.known(account, id)
        if not container.is_live or await self._is_of_old_boot(container):
            raise ContainerExpired
        return container

    async def usable(self, account: AccountId, id: ContainerId) -> AccountContainer | None:
        """Return a container in which code can run now, or None, whatever the reason."""
        try:
            container = await self.find(account, id)
        except NotFound:
            return None
        return container if await self.hosts.status(container.host) else None

    async def known(self, account: AccountId, id: ContainerId) -> AccountContainer:
        """Return a container that runs or has ended, of which files may still be kept."""
        async with self._store.statement() as statement:
            row = await statement.fetch_one(SQL["find"], (id, account))
        if row is None:
            raise no_such_container()
        return container_from(row)

    async def page(self, account: AccountId, query: ContainerQuery) -> list[AccountContainer]:
        """Return some of an account's containers, also those that have ended of late."""
        sql = SQL["page" if query.is_oldest_first else "page_newest_first"]
        facts = (account, query.name, query.name, query.after, query.after, query.limit)
        async with self._store.statement() as statement:
            rows = await statement.fetch(sql, facts)
        return [container_from(row) for row in rows]

    async def delete(self, account: AccountId, id: ContainerId) -> None:
        """End a container, and delete the copies of its files."""
        await self.end_and_forget(await self.known(account, id))

    async def end_and_forget(self, container: AccountContainer) -> None:
        """End a container that was found, and delete the copies of its files.

        Its row goes first: while its host does not answer, nobody can use it any more, and the
        host ends it by itself.
        """
        await self._end([container.id], "deleted")
        if container.is_live:
            with contextlib.suppress(*HOST_FAILURES):
                await self.hosts.host(container.host).end(container.id)
        await self.files.delete_all_of(container.id)

    async def stop(self, container: AccountContainer) -> None:
        """End a container that was found; the copies of its files stay as long as they would."""
        await self.expire([container.id])
        if container.is_live:
            with contextlib.suppress(*HOST_FAILURES):
                await self.hosts.host(container.host).end(container.id)

    async def expire(self, ids: Iterable[ContainerId]) -> int:
        """Note that containers have ended; return how many had not been noted."""
        return await self._end(list(ids), "expired")

    async def put_file(
        self, container: AccountContainer, path: str, content: bytes
    ) -> ContainerFile:
        """Write a caller's file into a container, and keep a copy."""
        await self.files.check_room(container, path, len(content))
        try:
            await self.hosts.host(container.host).put_file(container.id, path, content)
        except ContainerExpired:
            await self.expire([container.id])
            raise
        async with self._store.statement() as statement:
            await statement.execute(SQL["touch"], (container.id,))
        return await self.files.keep(container, path, content, "user")

    async def delete_file(self, file: ContainerFile) -> None:
        """Delete the copy of a file. Code in the container may still have the file itself."""
        await self.files.delete(file)

    async def begin_call(self, container: AccountContainer, seconds: float) -> None:
        """Note that code runs for up to `seconds`; ContainerExpired if the container has ended."""
        facts = (seconds, container.id, container.account)
        async with self._store.statement() as statement:
            if not await statement.execute(SQL["begin_call"], facts):
                raise ContainerExpired

    async def end_call(self, container: AccountContainer, seconds: float) -> None:
        """Note that code has run for so long."""
        async with self._store.statement() as statement:
            await statement.execute(SQL["end_call"], (round(seconds * 1000), container.id))

    async def _check_count(self, account: AccountId) -> bool:
        """Refuse one container too many; return whether other accounts use these hosts."""
        async with self._store.statement() as statement:
            live = await statement.fetch_one(SQL["count_live"], (account,))
            shared = await statement.fetch_one(SQL["is_shared"])
        assert live is not None, "a count is one row"
        assert shared is not None, "a count is one row"
        self._refuse_too_many(live[0])
        return bool(shared[0])

    def _refuse_too_many(self, live: int) -> None:
        most = self._settings.containers_per_account_max
        if live >= most:
            raise QuotaSpent(f"The account has {live} containers, and may have {most}: delete one.")

    async def _insert(
        self, account: AccountId, id: ContainerId, asked: tuple[str, int], placed: Placed
    ) -> None:
        name, minutes = asked
        status = placed.offer.status
        async with self._store.transaction() as tx:
            await tx.fetch(SQL["lock_account"], (account,))
            live = await tx.fetch_one(SQL["count_live"], (account,))
            assert live is not None, "a count is one row"
            self._refuse_too_many(live[0])
            await tx.execute(
                SQL["create"],
                (
                    *(id, account, name, placed.offer.url, placed.started.boot),
                    *(placed.memory_mb, minutes, status.driver, status.isolation),
                    self._settings.life_minutes_max,
                ),
            )

    async def _is_of_old_boot(self, container: AccountContainer) -> bool:
        """Return whether the host was started anew since; the container is gone then."""
        status = await self.hosts.status(container.host)
        if status is None or status.boot == container.boot:
            return False
        await self.expire([container.id])
        return True

    async def _end(self, ids: list[ContainerId], state: str) -> int:
        # Files of a deleted one are due at once: control deletes what this process leaves.
        is_deleted = state == "deleted"
        kept_seconds = 0.0 if is_deleted else self._settings.container_files_kept_seconds
        facts = (state, ids, state, kept_seconds)
        async with self._store.transaction() as tx:
            return len(await tx.fetch(SQL["end"], facts))


def no_such_container() -> NotFound:
    """Return the one answer for a container that is not there, or is another account's."""
    return NotFound("There is no such container.", param="container_id")
