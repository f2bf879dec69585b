"""Who speaks. A worker that takes a dead one's column in the table speaks as that one did."""

import hashlib
import secrets
from typing import Protocol

import msgspec

from penstock.clock import new_id


class Place(Protocol):
    """A column of the table that one host's workers share."""

    @property
    def host(self) -> str: ...

    @property
    def column(self) -> int: ...


class Identity(msgspec.Struct, frozen=True):
    """A sender's number, and the host whose table it shares."""

    sender: int
    host: str


def worker_identity(table: Place | None) -> Identity:
    """A worker without a table is a host of its own: everybody adds its claims."""
    if table is None:
        return Identity(secrets.randbits(64), new_id())
    return Identity(_number(f"worker {table.host} {table.column}"), table.host)


def keeper_identity(keeper: str) -> Identity:
    """The same keeper is the same sender after a restart."""
    return Identity(_number(f"keeper {keeper}"), keeper[:128] or "keeper")


def _number(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest())
