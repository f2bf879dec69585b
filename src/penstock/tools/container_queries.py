"""The room's SQL, and the records that its rows become."""

from typing import Final, Literal

import msgspec

from penstock.records.account import AccountId
from penstock.store import read_queries
from penstock.store.pool import Row
from penstock.tools.container_ids import ContainerFileId, ContainerId

SQL: Final = read_queries("penstock.tools", "containers.sql")

FileSource = Literal["user", "assistant"]


class AccountContainer(msgspec.Struct, frozen=True):
    """A container. `is_live` is false once it has ended, also where no row says so yet."""

    id: ContainerId
    account: AccountId
    name: str
    host: str
    boot: str
    state: Literal["running", "expired", "deleted"]
    memory_mb: int
    idle_minutes: int
    driver: str
    isolation: str
    created_at: float
    last_active_at: float
    is_live: bool

    @property
    def status(self) -> str:
        """Return its state as clients see it."""
        return "running" if self.is_live else "expired"


class ContainerFile(msgspec.Struct, frozen=True):
    """A file of a container that is kept; `path` is below the data folder."""

    id: ContainerFileId
    container: ContainerId
    account: AccountId
    path: str
    bytes: int
    source: FileSource
    object: str
    created_at: float


def container_from(row: Row) -> AccountContainer:
    return AccountContainer(*row)


def file_from(row: Row) -> ContainerFile:
    return ContainerFile(*row)
