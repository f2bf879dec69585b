"""Sender identities. A worker that takes a dead worker's table column takes its identity too."""

import hashlib
import secrets
from typing import Protocol

import msgspec

from penstock.clock import new_id


class Place(Protocol):
    """A worker's column in the load table that one host's workers share."""

    @property
    def host(self) -> str: ...

    @property
    def column(self) -> int: ...


class Identity(msgspec.Struct, frozen=True):
    """A sender's number, and the host whose load table it uses."""

    sender: int
    host: str


def worker_identity(table: Place | None) -> Identity:
    """Return a worker's identity. Without a table it is its own host: all peers add its claims."""
    if table is None:
        return Identity(secrets.randbits(64), new_id())
    return Identity(_number(f"worker {table.host} {table.column}"), table.host)


def keeper_identity(keeper: str) -> Identity:
    """Return a keeper's identity, which stays the same after a restart."""
    return Identity(_number(f"keeper {keeper}"), keeper[:128] or "keeper")


def _number(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest())
