"""The cookie of a browser that has signed in: the key's id, two times and a nonce, authenticated.

The key's secret is not in it. Whether the key still counts is asked at each request.
"""

import hmac
import secrets
from base64 import b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from typing import Final

import msgspec

from penstock.clock import Clock
from penstock.console.settings import ControlSettings

_VERSION: Final = "1"
_MAC_BYTES: Final = 32
_COOKIE_CHARS_MAX: Final = 512
# A cookie is renewed when it is older, not at each request of a live page.
_RENEWED_SECONDS: Final = 60


class BrowserSession(msgspec.Struct, frozen=True, array_like=True):
    """Who has signed in, when, and when a page was last asked for. Unix seconds."""

    version: str
    key: str
    nonce: str
    began_at: int
    seen_at: int


class SessionCookies:
    """Makes and reads the cookies of one cell; any of its control processes reads them."""

    def __init__(self, secret: bytes, settings: ControlSettings, clock: Clock) -> None:
        self._secret = secret
        self._now = clock.now
        self._session_seconds = settings.console_session_hours * 3600
        self._idle_seconds = settings.console_idle_minutes * 60

    def begin(self, key: str) -> BrowserSession:
        """Return a new session of a key."""
        now = int(self._now())
        return BrowserSession(_VERSION, key, secrets.token_urlsafe(16), now, now)

    def renewed(self, session: BrowserSession) -> BrowserSession | None:
        """Return a session as seen now; None while its cookie is new enough."""
        now = int(self._now())
        if now - session.seen_at < min(_RENEWED_SECONDS, self._idle_seconds / 4):
            return None
        return msgspec.structs.replace(session, seen_at=now)

    def write(self, session: BrowserSession) -> str:
        """Return the cookie's value."""
        body = msgspec.json.encode(session)
        return urlsafe_b64encode(self._mac("session", body) + body).decode().rstrip("=")

    def read(self, cookie: str) -> BrowserSession | None:
        """Return the session of a cookie; None for one that is wrong, ended, or idle for long."""
        if len(cookie) > _COOKIE_CHARS_MAX:
            return None
        try:
            padded = cookie.encode() + b"=" * (-len(cookie) % 4)
            data = b64decode(padded, altchars=b"-_", validate=True)
            mac, body = data[:_MAC_BYTES], data[_MAC_BYTES:]
            if not hmac.compare_digest(mac, self._mac("session", body)):
                return None
            session = msgspec.json.decode(body, type=BrowserSession)
        except (Base64Error, ValueError):
            return None
        now = self._now()
        is_over = now - session.began_at > self._session_seconds
        is_idle = now - session.seen_at > self._idle_seconds
        is_early = session.seen_at > now + _RENEWED_SECONDS
        is_ours = session.version == _VERSION and not (is_over or is_idle or is_early)
        return session if is_ours else None

    def form_token(self, session: BrowserSession) -> str:
        """Return what each form of this session must send back: other sites cannot know it."""
        return self._mac("form", session.nonce.encode()).hex()

    def is_form_token(self, session: BrowserSession, token: str) -> bool:
        return hmac.compare_digest(token.encode(), self.form_token(session).encode())

    def _mac(self, purpose: str, data: bytes) -> bytes:
        return hmac.digest(self._secret, purpose.encode() + b"\0" + data, "sha256")
