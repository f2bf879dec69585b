"""Parses a URL strictly: where to connect, and which path to request. Pure."""

from typing import Final
from urllib.parse import urlsplit

import msgspec

from penstock.errors import InvalidRequest
from penstock.outbound.addresses import Guard

_URL_CHARS_MAX: Final = 2048
_PORTS: Final = {"https": 443, "http": 80}


class Target(msgspec.Struct, frozen=True):
    """A parsed URL. `host` is a name or an unbracketed address; `authority` is the Host header."""

    host: str
    port: int
    is_tls: bool
    authority: str
    path: str


def read_target(url: str) -> Target:
    """Parse a URL; InvalidRequest states what is wrong with it."""
    if len(url) > _URL_CHARS_MAX:
        raise _wrong(f"is longer than {_URL_CHARS_MAX} characters")
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise _wrong("must be plain ASCII without spaces; write other characters as %XX or xn--…")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise _wrong("is not a URL") from None
    if parts.scheme not in _PORTS:
        raise _wrong("must begin with https://")
    if not parts.hostname or port == 0:
        raise _wrong("has no host, or no port that can be reached")
    if "@" in parts.netloc:
        raise _wrong("must not contain a user or a password")
    if parts.fragment:
        raise _wrong("must not contain a fragment")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    is_tls = parts.scheme == "https"
    return Target(parts.hostname, port or _PORTS[parts.scheme], is_tls, parts.netloc, path)


def check_target(url: str, guard: Guard) -> None:
    """Refuse a URL that could never be delivered to. Names are resolved only when used."""
    target = read_target(url)
    is_address = ":" in target.host or target.host.replace(".", "").isdigit()
    if is_address and not guard.permits(target.host, target.port, is_tls=target.is_tls):
        raise _wrong("leads to an address or port that requests may not be sent to")


def _wrong(what: str) -> InvalidRequest:
    return InvalidRequest(f"The URL {what}.", param="url")
