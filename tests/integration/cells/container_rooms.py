"""The rooms of containers on a test's database, as a gateway and control build them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from tests.integration.cells.cell_key import key_file, sealed_objects
from tests.integration.cells.imitated_sandbox import TOKEN, ImitatedSandbox

from penstock.admission import SpentBudget
from penstock.clock import SystemClock
from penstock.policy import AccountBook
from penstock.records.account import AccountId
from penstock.store import Objects, Store, StoreSettings
from penstock.tools import (
    AccountContainer,
    CodeCalls,
    ContainerBook,
    ContainerFiles,
    ContainerUpkeep,
    ContainerWish,
    CopiedFiles,
    SandboxHosts,
    ToolsSettings,
)
from penstock.turns.container_tending import ContainerTending


class ContainerRooms(msgspec.Struct):
    """One process's rooms, and an account."""

    store: Store
    objects: Objects
    book: ContainerBook
    calls: CodeCalls
    upkeep: ContainerUpkeep
    tending: ContainerTending
    account: AccountId

    async def create(self, **wish: Any) -> AccountContainer:
        return await self.book.create(self.account, ContainerWish(**{"name": "box", **wish}))

    async def run(self, container: AccountContainer, code: str, call_id: str = "call") -> list[Any]:
        return [line async for line in self.calls.run_code(container, call_id, code)]

    async def copied(self, container: AccountContainer, code: str) -> CopiedFiles:
        [found] = [
            line for line in await self.run(container, code) if isinstance(line, CopiedFiles)
        ]
        return found

    async def execute(self, sql: Any, *params: object) -> None:
        async with self.store.transaction() as tx:
            await tx.execute(sql, params)

    async def value(self, sql: Any, *params: object) -> Any:
        async with self.store.transaction() as tx:
            row = await tx.fetch_one(sql, params)
        assert row is not None
        return row[0]


def tools_settings(folder: Path, *hosts: ImitatedSandbox, **settings: Any) -> ToolsSettings:
    """Settings that name these hosts, and the file with their token."""
    token = folder / "sandbox.token"
    token.write_text(f"{TOKEN}\n")
    urls = tuple(host.url for host in hosts)
    return ToolsSettings(sandbox_hosts=urls, sandbox_token_file=str(token), **settings)


@asynccontextmanager
async def container_rooms(
    dsn: str, folder: Path, tools: ToolsSettings, account: AccountId | None = None
) -> AsyncIterator[ContainerRooms]:
    """Open the rooms; without `account` a new one is made."""
    settings = StoreSettings(
        dsn=dsn, objects_url=f"file:{folder}/objects", cell_key_file=key_file(folder)
    )
    clock = SystemClock()
    store = Store(settings)
    await store.open()
    objects = sealed_objects(store, settings)
    await objects.open()
    if account is None:
        account = (await AccountBook(store).create("some")).id
    book = ContainerBook(
        store,
        SandboxHosts(tools, clock),
        ContainerFiles(store, objects, tools),
        tools,
        SpentBudget(store, clock).check,
    )
    upkeep = ContainerUpkeep(store, book, tools)
    tending = ContainerTending(store, upkeep)
    try:
        calls = CodeCalls(book, tools, clock)
        yield ContainerRooms(store, objects, book, calls, upkeep, tending, account)
    finally:
        await objects.close()
        await store.close()
