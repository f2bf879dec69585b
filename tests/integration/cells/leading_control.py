"""The loops of a leading control process, with webhooks that may go to 127.0.0.1."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from penstock.app.control import ControlLoops
from penstock.clock import SystemClock
from penstock.config import Config
from penstock.events import WebhookSettings
from penstock.store import Store, StoreSettings

WEBHOOKS = WebhookSettings(allowed_networks=("127.0.0.0/8",), poll_seconds=0.02)


@contextlib.asynccontextmanager
async def leading(store: Store, dsn: str, folder: Path) -> AsyncIterator[None]:
    settings = StoreSettings(
        dsn=dsn, lock_poll_seconds=0.05, lock_ping_seconds=0.1, objects_url=f"file:{folder}"
    )
    control = ControlLoops(Config(store=settings, webhooks=WEBHOOKS), store, SystemClock())
    async with asyncio.TaskGroup() as group:
        running = group.create_task(control.run())
        yield
        running.cancel()
