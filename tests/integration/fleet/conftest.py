"""What tests of deployments share: a folder with hosts, and a store for many processes' parts."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.integration.fleet.watched_keeper import state_folder

from penstock.store import Store, StoreSettings


@pytest.fixture
def hosts_folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    for host in tmp_path.glob("gpu-*"):
        with state_folder(host):
            pass


@pytest.fixture
async def busy_store(dsn: str) -> AsyncIterator[Store]:
    """Six keepers, control and a mirror share it, which are processes of their own elsewhere."""
    store = Store(StoreSettings(dsn=dsn, pool_size_max=16))
    await store.open()
    yield store
    await store.close()
