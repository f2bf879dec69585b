"""Where a keeper's replicas come from: processes of its host, or pods of a cluster."""

from collections.abc import Callable, Coroutine
from pathlib import Path

import msgspec

from penstock.clock import Clock
from penstock.fleet.engine_keys import EngineKeys
from penstock.fleet.memory import FolderMemory, KeeperMemory
from penstock.fleet.providers import Provider, attach, process
from penstock.fleet.replica_files import StateFolder
from penstock.fleet.settings import FleetSettings
from penstock.store.pool import Store


class ReplicaSources(msgspec.Struct, frozen=True):
    """What a keeper starts replicas with, and what it remembers them by."""

    memory: KeeperMemory
    providers: dict[str, Provider]
    # What has to run beside the keeper; None if nothing has.
    run: Callable[[], Coroutine[None, None, None]] | None = None


def open_sources(
    settings: FleetSettings, store: Store, keys: EngineKeys, clock: Clock
) -> ReplicaSources:
    """Return those that the settings ask for."""
    if settings.pool:
        # Imported for pools alone: the client library is an extra.
        from penstock.fleet.providers.kubernetes import pool  # noqa: PLC0415 - see above

        parts = pool.open_pool(settings, store, keys, clock)
        return ReplicaSources(parts.memory, {pool.NAME: parts.provider}, parts.cluster.run)
    folder = StateFolder(Path(settings.state_folder))
    providers: dict[str, Provider] = {
        process.NAME: process.ProcessProvider(settings, folder, keys, clock),
        attach.NAME: attach.AttachProvider(folder),
    }
    return ReplicaSources(FolderMemory(folder, settings.ended_kept), providers)
