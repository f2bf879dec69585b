"""A console of a module's own with rows in its database, and what each of its answers must have."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx
from tests.integration.cells.control_process import ControlProcess, control_process
from tests.integration.console.console_rows import ConsoleRows, fill

from penstock.store import Store, StoreSettings

_SETTINGS: Final = {
    "control.requests_per_minute": 100_000,
    "control.console_sign_ins_per_minute": 10_000,
    "control.wrong_keys_per_minute": 10_000,
}
_SAFE: Final = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


def filled(dsn: str, folder: Path) -> ConsoleRows:
    """Fill a database."""

    async def fill_it() -> ConsoleRows:
        store = Store(StoreSettings(dsn=dsn))
        await store.open()
        try:
            return await fill(store, folder)
        finally:
            await store.close()

    return asyncio.run(fill_it())


@contextmanager
def patient_control(dsn: str, folder: Path) -> Iterator[ControlProcess]:
    """Run control that many attacks do not slow down."""
    with control_process(dsn, folder, _SETTINGS) as control:
        yield control


def assert_safe(answer: httpx.Response) -> None:
    """Fail for an answer without a header of safety, or with one twice."""
    policy = answer.headers["content-security-policy"]
    for part in ("default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'"):
        assert part in policy
    assert "unsafe" not in policy
    for name, value in _SAFE.items():
        assert answer.headers.get_list(name) == [value]
    if "immutable" not in answer.headers["cache-control"]:
        assert answer.headers["cache-control"] == "no-store"


def accounts_of(control: ControlProcess) -> list[str]:
    """Return the names of all accounts."""
    with control.client() as client:
        return [each["name"] for each in client.get("/accounts").json()["accounts"]]
