"""A gateway's mirror of accounts and keys, so that checking a known key needs no database.

Guarantees: `find` is synchronous and takes about a microsecond; a change in Postgres appears within
`refresh_seconds`; while Postgres is unreachable, known keys keep working, and unknown keys get
StoreUnavailable, never Unauthenticated. It writes nothing.
"""

import asyncio
import hashlib
import logging

from penstock import errors
from penstock.clock import Clock
from penstock.policy.cell_secret import account_salt, cell_mark, read_cell_secret, signal_key
from penstock.policy.changes import read_accounts, read_keys, read_revision
from penstock.policy.key_table import KeyTable
from penstock.policy.settings import PolicySettings
from penstock.records.account import Key, KeyId
from penstock.store import Store, Transaction

logger = logging.getLogger(__name__)
_sha256 = hashlib.sha256

_FIRST_RETRY_SECONDS = 0.1


class KeyMirror:
    """Mirror of accounts and keys: call `load` once, then keep `run` running."""

    def __init__(self, store: Store, clock: Clock, settings: PolicySettings) -> None:
        self.refresh_failures = 0
        self._store = store
        self._clock = clock
        self._settings = settings
        self._table = self._new_table()
        self._revision = 0
        self._cell_secret = b""
        self._salts: dict[str, str] = {}
        self._began_at = 0.0
        self._refreshed_at = 0.0
        self._missed = asyncio.Event()
        self._waiting: list[asyncio.Future[bool]] = []

    def find(self, secret: bytes) -> Key | None:
        """Return the active key with this secret, if the mirror has it."""
        return self.find_hashed(_sha256(secret).digest())

    def find_hashed(self, secret_sha256: bytes) -> Key | None:
        """Return the active key with this hash. Hashing is most of the work: callers may cache it.

        Callers must not cache the returned key: a revocation could not clear it there.
        """
        return self._table.active.get(secret_sha256)

    def find_by_id(self, id: KeyId) -> Key | None:
        """Return a key by its id, revoked or not; None when the mirror does not have it (yet).

        Used for jobs, which run long after their caller sent its secret.
        """
        return self._table.find_by_id(id)

    async def look_up(self, secret: bytes) -> Key:
        """Return a key; for an unknown one wait for a refresh, as it may have just been created."""
        key = self.find(secret)
        if key is not None:
            return key
        if not self._table.is_revoked(_sha256(secret).digest()):
            await self._next_refresh()
            key = self.find(secret)
        if key is not None:
            return key
        if self._table.is_full:
            raise errors.Overloaded("This gateway cannot hold more keys.")
        raise errors.Unauthenticated("This API key is unknown or revoked.")

    def salt_for(self, account: str) -> str:
        """Return the salt that separates this account's cached prefixes from other accounts'."""
        salt = self._salts.get(account)
        if salt is None:
            assert self._cell_secret, "the mirror is not loaded"
            salt = account_salt(self._cell_secret, account)
            if len(self._salts) >= self._settings.accounts_max:
                self._salts.clear()
            self._salts[account] = salt
        return salt

    def cell_mark(self) -> str:
        """Return a name for this cell that does not reveal its secret."""
        assert self._cell_secret, "the mirror is not loaded"
        return cell_mark(self._cell_secret)

    def signal_key(self) -> bytes:
        """Return the key that authenticates this cell's signals."""
        assert self._cell_secret, "the mirror is not loaded"
        return signal_key(self._cell_secret)

    @property
    def age_seconds(self) -> float:
        """Seconds since Postgres last confirmed the mirror's contents."""
        return self._clock.monotonic() - self._refreshed_at

    async def load(self) -> None:
        """Read all accounts and keys, with retries; raise Overloaded if they exceed the limits."""
        pause = _FIRST_RETRY_SECONDS
        for _ in range(self._settings.load_attempts_max - 1):
            try:
                return await self._load_once()
            except errors.StoreUnavailable:
                logger.warning("keys not loaded yet", extra={"action": "keys_not_loaded"})
                await asyncio.sleep(pause)
                pause = min(pause * 2, self._settings.retry_seconds_max)
        return await self._load_once()

    async def run(self) -> None:
        """Refresh until cancelled. All reading after `load` happens here, one at a time."""
        pause = self._settings.refresh_seconds
        while True:
            await self._wait_for_turn(pause)
            # Every request waiting now arrived before this refresh begins, so it answers them all.
            waiting, self._waiting = self._waiting, []
            self._missed.clear()
            is_fresh = False
            try:
                is_fresh = await self._refresh()
            finally:
                for each in waiting:
                    if not each.done():
                        each.set_result(is_fresh)
            if is_fresh:
                pause = self._settings.refresh_seconds
            else:
                pause = min(pause * 2, self._settings.retry_seconds_max)

    async def _load_once(self) -> None:
        async with self._store.transaction() as transaction:
            self._cell_secret = await read_cell_secret(transaction)
            await self._catch_up(transaction)
        if self._table.is_full:
            settings = self._settings
            raise errors.Overloaded(
                f"There are more than {settings.keys_max} keys or {settings.accounts_max} accounts."
                " Raise policy.keys_max and policy.accounts_max."
            )

    async def _next_refresh(self) -> None:
        """Wait for a refresh that begins after now; StoreUnavailable if it fails or times out."""
        if len(self._waiting) >= self._settings.miss_waiting_max:
            raise errors.StoreUnavailable("Too many unknown keys are being looked up.")
        answer = asyncio.get_running_loop().create_future()
        self._waiting.append(answer)
        self._missed.set()
        try:
            async with asyncio.timeout(self._settings.miss_wait_seconds):
                is_fresh = await answer
        except TimeoutError:
            raise errors.StoreUnavailable from None
        if not is_fresh:
            raise errors.StoreUnavailable

    async def _wait_for_turn(self, pause: float) -> None:
        try:
            async with asyncio.timeout(pause):
                await self._missed.wait()
        except TimeoutError:
            return
        since = self._clock.monotonic() - self._began_at
        await asyncio.sleep(max(0.0, self._settings.miss_refresh_seconds - since))

    async def _refresh(self) -> bool:
        self._began_at = self._clock.monotonic()
        try:
            await self._ask()
        except errors.StoreUnavailable:
            self.refresh_failures += 1
            logger.warning("keys not refreshed", extra={"action": "keys_not_refreshed"})
            return False
        except Exception:
            # Catch everything at the loop's top: known keys must keep working.
            self.refresh_failures += 1
            logger.exception("keys not refreshed", extra={"action": "keys_not_refreshed"})
            return False
        return True

    async def _ask(self) -> None:
        """Read changes. Usually there are none, which the revision alone shows in one statement."""
        async with self._store.statement() as statement:
            revision = await read_revision(statement)
        if revision == self._revision:
            self._refreshed_at = self._clock.monotonic()
            return
        async with self._store.transaction() as transaction:
            await self._catch_up(transaction)

    async def _catch_up(self, transaction: Transaction) -> None:
        """Apply the accounts and keys that changed since the last refresh.

        The revision counter is read first. All rows up to it are visible by then (see
        migrations/0001), so the next refresh may begin there. Newer rows may or may not be visible
        now, and the next refresh reads them again. An account precedes its keys, so accounts are
        read before keys.
        """
        table, since = self._table, self._revision
        revision = await read_revision(transaction)
        if revision < since:
            # The database was restored to an earlier state, so mirrored rows may no longer exist.
            logger.warning("keys went back in time", extra={"action": "keys_went_back"})
            table, since = self._new_table(), 0
        if revision > since:
            async for accounts in read_accounts(transaction, since):
                table.apply_accounts(accounts)
            async for keys in read_keys(transaction, since):
                table.apply_keys(keys)
            if table.is_full:
                logger.error("too many keys to hold", extra={"action": "key_mirror_full"})
        self._table, self._revision = table, revision
        self._refreshed_at = self._clock.monotonic()

    def _new_table(self) -> KeyTable:
        settings = self._settings
        return KeyTable(keys_max=settings.keys_max, accounts_max=settings.accounts_max)
