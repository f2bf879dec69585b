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
# All of it: no script, style, frame, form or connection of another site, and no inline code.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_SAFE: Final = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


# The operations that have a form somewhere in the console.
OFFERED: Final = frozenset(
    {
        "create_account", "change_account", "create_key", "revoke_key", "set_limits",
        "remove_limit", "change_flex", "drain_replica", "restart_replica", "cordon_host",
        "uncordon_host", "drain_host",
    }
)  # fmt: skip


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
    for name, value in _SAFE.items():
        assert answer.headers.get_list(name) == [value]
    if "immutable" not in answer.headers["cache-control"]:
        assert answer.headers["cache-control"] == "no-store"


def accounts_of(control: ControlProcess) -> list[str]:
    """Return the names of all accounts."""
    with control.client() as client:
        return [each["name"] for each in client.get("/accounts").json()["accounts"]]
