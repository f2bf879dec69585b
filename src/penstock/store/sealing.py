"""Encrypts what callers send and get wherever it is kept: the only door to content at rest.

Each account has a data key. Postgres has the data keys, encrypted with the cell's key; the cell's
key is a file that is never in Postgres or in the object store. So a copy of both is unreadable
without that file, and an account's content is unreadable for good once its data key is deleted.

A cell without `store.cell_key_file` keeps content as it comes. What it kept stays readable after a
key is set.
"""

import hashlib
import logging
import secrets
import stat
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from penstock.clock import Clock, SystemClock
from penstock.errors import ContentUnreadable, InvalidRequest, StoreUnavailable
from penstock.records.account import AccountId
from penstock.store.pool import Store, Transaction
from penstock.store.sealed_value import (
    KEY_BYTES,
    DoesNotOpen,
    Sealer,
    Unsealer,
    cipher,
    decrypt,
    unseal_value,
)
from penstock.store.settings import StoreSettings

# A data key that control deleted may be in use for so long in other processes.
_KNOWN_SECONDS: Final = 60.0
_KNOWN_MAX: Final = 10_000
_NONCE_BYTES: Final = 12
_PARAM: Final = "store.cell_key_file"

logger = logging.getLogger(__name__)


class ContentSeal:
    """Encrypts and decrypts one account's content. Without a key it passes content through."""

    def __init__(self, key: bytes | None) -> None:
        self._key = key

    def seal(self, owner: str, content: bytes) -> bytes:
        """Encrypt a value. `owner` says where it belongs; `unseal` needs the same."""
        if self._key is None or not content:
            return content
        sealer = Sealer(self._key, owner)
        return sealer.add(content) + sealer.end()

    def unseal(self, owner: str, kept: bytes) -> bytes:
        """Decrypt a value, or return one that was kept without a key as it is."""
        try:
            return unseal_value(self._key, owner, kept)
        except DoesNotOpen:
            raise _unreadable(owner) from None

    async def seal_chunks(self, owner: str, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Encrypt a stream."""
        if self._key is None:
            async for chunk in chunks:
                yield chunk
            return
        sealer = Sealer(self._key, owner)
        async for chunk in chunks:
            if sealed := sealer.add(chunk):
                yield sealed
        yield sealer.end()

    async def unseal_chunks(self, owner: str, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Decrypt a stream. What is yielded is authentic; a cut stream raises at its end."""
        unsealer = Unsealer(self._key, owner)
        try:
            async for piece in pieces:
                if content := unsealer.add(piece):
                    yield content
            if content := unsealer.end():
                yield content
        except DoesNotOpen:
            raise _unreadable(owner) from None

    def digest(self, content: bytes) -> str:
        """Return a digest of content for a name. With a key, nobody can test a guess by it."""
        if self._key is None:
            return hashlib.sha256(content).hexdigest()
        return hashlib.blake2b(
            content, key=self._key, digest_size=32, person=b"penstock name"
        ).hexdigest()


class Sealing:
    """Knows the cell's key, and reads and makes the data keys of accounts."""

    def __init__(self, store: Store, settings: StoreSettings, clock: Clock | None = None) -> None:
        self._store = store
        self._path = settings.cell_key_file
        self._monotonic = (clock or SystemClock()).monotonic
        self._cell_key: bytes | None = None
        self._is_checked = False
        self._cell_seal: ContentSeal | None = None
        self._known: OrderedDict[AccountId, tuple[float, ContentSeal]] = OrderedDict()

    @property
    def is_on(self) -> bool:
        """Whether this cell has a key, so that new content is encrypted."""
        return bool(self._path)

    async def of_account(self, account: AccountId) -> ContentSeal:
        """Return an account's seal; its data key is made at first use."""
        if not self._path:
            return _OPEN
        known = self._known.get(account)
        now = self._monotonic()
        if known is not None and now < known[0]:
            return known[1]
        seal = ContentSeal(await self._data_key(account))
        self._known[account] = (now + _KNOWN_SECONDS, seal)
        self._known.move_to_end(account)
        if len(self._known) > _KNOWN_MAX:
            self._known.popitem(last=False)
        return seal

    async def of_cell(self) -> ContentSeal:
        """Return the seal of what belongs to the cell itself, such as its engines' keys."""
        if not self._path:
            return _OPEN
        if self._cell_seal is None:
            key = await self._checked_key()
            own = hashlib.blake2b(key=key, digest_size=KEY_BYTES, person=b"penstock engines")
            self._cell_seal = ContentSeal(own.digest())
        return self._cell_seal

    async def open(self) -> None:
        """Check the cell's key; where Postgres does not answer now, the first use checks it."""
        with suppress(StoreUnavailable):
            await self.check()

    async def check(self) -> None:
        """Read the cell's key and compare it with the one this cell began with.

        Raises InvalidRequest if the file is missing, open to others or another cell's.
        """
        if not self._path or self._is_checked:
            return
        key = self._cell_key = self._cell_key or read_cell_key(Path(self._path))
        mark = hashlib.blake2b(key=key, digest_size=16, person=b"penstock cell").digest()
        async with self._store.transaction() as tx:
            await tx.execute(
                "insert into cell_key (mark) values (%s) on conflict do nothing", (mark,)
            )
            row = await tx.fetch_one("select mark from cell_key")
        assert row is not None, "a row that was just inserted, or stood there before"
        if bytes(row[0]) != mark:
            raise InvalidRequest(
                f"The key in {self._path} is not the key of this cell: what was kept with the"
                " cell's own key could not be read. Every process of a cell needs the same file.",
                param=_PARAM,
            )
        self._is_checked = True

    async def _checked_key(self) -> bytes:
        """Return the cell's key; StoreUnavailable if it is not that of this cell."""
        try:
            await self.check()
        except InvalidRequest as wrong:
            # Postgres was away when this process began. Its callers can do nothing about it.
            logger.error(  # noqa: TRY400 - the traceback says nothing more
                "the cell's key cannot be used",
                extra={"action": "cell_key_wrong", "reason": wrong.message},
            )
            raise StoreUnavailable("Content cannot be kept or read here now.") from None
        assert self._cell_key is not None, "checked"
        return self._cell_key

    async def _data_key(self, account: AccountId) -> bytes:
        cell_key = await self._checked_key()
        async with self._store.transaction() as tx:
            row = await tx.fetch_one(_FIND, (account,))
            if row is None:
                made = _wrap(cell_key, account, secrets.token_bytes(KEY_BYTES))
                await tx.execute(_ADD, (account, made, account))
                # Another process may have been first.
                row = await tx.fetch_one(_FIND, (account,))
        if row is None:
            raise StoreUnavailable("The account has no data key: it is blocked, or was forgotten.")
        return _unwrap(cell_key, account, bytes(row[0]))


async def forget_data_key(tx: Transaction, account: AccountId) -> bool:
    """Delete an account's data key: no content of it can be read again. Return if there was one."""
    return await tx.execute("delete from account_keys where account = %s", (account,)) > 0


def read_cell_key(path: Path) -> bytes:
    """Return the key in a file of 64 hex digits that only its owner can read."""
    try:
        text = path.read_text("ascii").strip()
        mode = path.stat().st_mode
        key = bytes.fromhex(text)
    except OSError as failure:
        raise InvalidRequest(
            f"The cell's key cannot be read from {path} ({failure.strerror}).", param=_PARAM
        ) from failure
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise InvalidRequest(
            f"{path} must hold {2 * KEY_BYTES} hex digits, as `openssl rand -hex {KEY_BYTES}`"
            " prints them.",
            param=_PARAM,
        )
    if mode & (stat.S_IRWXO | stat.S_IWGRP):
        raise InvalidRequest(
            f"Other users may read or change {path}: run `chmod 600` on it.", param=_PARAM
        )
    return key


def new_cell_key() -> str:
    """Return the text of a new key file."""
    return secrets.token_hex(KEY_BYTES) + "\n"


_OPEN: Final = ContentSeal(None)
_FIND: Final = "select wrapped from account_keys where account = %s"
# Not for a blocked account: one that was forgotten must keep nothing more.
_ADD: Final = """
    insert into account_keys (account, wrapped) select %s, %s
    where not exists (select from accounts where id = %s and is_blocked) on conflict do nothing
"""


def _wrap(cell_key: bytes, account: AccountId, data_key: bytes) -> bytes:
    nonce = secrets.token_bytes(_NONCE_BYTES)
    return nonce + cipher(cell_key).encrypt(nonce, data_key, account.encode())


def _unwrap(cell_key: bytes, account: AccountId, wrapped: bytes) -> bytes:
    nonce, sealed = wrapped[:_NONCE_BYTES], wrapped[_NONCE_BYTES:]
    try:
        return decrypt(cipher(cell_key), nonce, sealed, account.encode())
    except DoesNotOpen:
        raise _unreadable(f"account {account}") from None


def _unreadable(owner: str) -> ContentUnreadable:
    """Log what does not open, and return the error that callers get."""
    logger.error(
        "kept content does not open", extra={"action": "content_does_not_open", "owner": owner}
    )
    return ContentUnreadable("What was kept cannot be decrypted now.")
