"""Decides whether launched engines get keys of their own, which gateways learn from the roster.

Gateways of a release before there were keys would be refused. So a cell that was in use before goes
on without them until its operator decides.
"""

import secrets
from typing import Final

from penstock.catalogue import takes_key
from penstock.errors import StoreUnavailable
from penstock.fleet.settings import FleetSettings
from penstock.records.model import Recipe
from penstock.store.pool import Store

_DEFAULT: Final = "select gives_engine_keys from cell_defaults"
_KEY_BYTES: Final = 24


class EngineKeys:
    """Makes the keys of the engines that one keeper launches."""

    def __init__(self, store: Store, settings: FleetSettings) -> None:
        self._store = store
        self._wanted = settings.engine_keys
        self._is_on = settings.engine_keys is True

    async def open(self) -> None:
        """Ask the cell if need be; while Postgres does not answer, engines get no keys."""
        if self._wanted != "cell":
            return
        try:
            async with self._store.statement() as statement:
                row = await statement.fetch_one(_DEFAULT)
        except StoreUnavailable:
            return
        self._is_on = row is not None and bool(row[0])

    def new_key(self, recipe: Recipe) -> str:
        """Return a new engine's key; "" if it gets none."""
        return secrets.token_urlsafe(_KEY_BYTES) if self._is_on and takes_key(recipe) else ""
