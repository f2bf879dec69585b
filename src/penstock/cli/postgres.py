"""Finds Postgres for a command, and opens it: `store.dsn`, or the one that `penstock up` embeds."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from penstock.cli.exit_codes import CommandFailed, ExitCode
from penstock.config import Config
from penstock.store import Store, pending
from penstock.store.embedded import EmbeddedPostgres


def find_dsn(config: Config, state: Path) -> str:
    """Return the DSN of Postgres, which need not run."""
    if config.store.dsn:
        return config.store.dsn
    folder = state / "postgres"
    if (folder / "data").is_dir():
        return EmbeddedPostgres(folder).dsn
    raise CommandFailed(
        f"There is no Postgres to ask: store.dsn is empty, and {state} is not the folder of a"
        " `penstock up`. Set store.dsn, or pass --state.",
        ExitCode.USAGE,
    )


def require_dsn(config: Config) -> str:
    """Return `store.dsn`, which the long-running commands require."""
    if not config.store.dsn:
        raise CommandFailed(
            "store.dsn is empty. Set it to your Postgres (PENSTOCK_STORE_DSN, or [store] in the"
            " configuration file); `penstock up` brings its own.",
            ExitCode.USAGE,
        )
    return config.store.dsn


@asynccontextmanager
async def opened(config: Config, state: Path) -> AsyncIterator[Store]:
    """Open a store; refuses a database that lacks migrations."""
    dsn = find_dsn(config, state)
    missing = await pending(dsn)
    if missing:
        raise CommandFailed(
            f"The database lacks {len(missing)} migrations ({missing[0]} first):"
            " run `penstock migrate`."
        )
    store = Store(msgspec.structs.replace(config.store, dsn=dsn))
    await store.open()
    try:
        yield store
    finally:
        await store.close()
