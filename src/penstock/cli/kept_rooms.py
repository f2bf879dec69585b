"""Opens what keeps callers' content, for commands that delete it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from penstock.app.job_rooms import desk_rooms, job_desk, session_upkeep
from penstock.cli.up.state import UpState
from penstock.clock import SystemClock
from penstock.config import Config
from penstock.policy import AccountBook
from penstock.queue.files import Files
from penstock.store import Objects, Sealing, Store
from penstock.store.settings import StoreSettings
from penstock.turns.forgetting import KeptRooms


@asynccontextmanager
async def kept_rooms(store: Store, config: Config, state: Path) -> AsyncIterator[KeptRooms]:
    """Open the rooms on an open store; with `store.dsn` empty, those of a `penstock up`."""
    clock, settings = SystemClock(), _settings(config, state)
    objects = Objects(settings, Sealing(store, settings, clock))
    await objects.open()
    try:
        rooms = desk_rooms(store, objects, config)
        responses, conversations = session_upkeep(store, rooms.values, config, clock)
        yield KeptRooms(
            store=store,
            accounts=AccountBook(store),
            desk=job_desk(rooms, config, clock),
            files=Files(store, objects, clock),
            responses=responses,
            conversations=conversations,
        )
    finally:
        await objects.close()


def _settings(config: Config, state: Path) -> StoreSettings:
    if config.store.dsn:
        return config.store
    folder = UpState(state)
    return msgspec.structs.replace(
        config.store, objects_url=f"file:{folder.objects}", cell_key_file=str(folder.cell_key)
    )
