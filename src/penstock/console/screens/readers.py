"""Says who asks for a page: whoever signed in with a key, or whom a proxy signed in."""

import re
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final

import msgspec
from starlette.requests import Request

from penstock.clock import Clock
from penstock.console.rooms import OperatorRooms
from penstock.console.screens.forms import cookie_of, is_from_another_site
from penstock.console.screens.session_cookie import BrowserSession, SessionCookies
from penstock.console.screens.shared_readings import SharedReadings
from penstock.console.settings import ControlSettings
from penstock.console.sign_in import MinuteCounts
from penstock.errors import RateLimited, Unauthenticated
from penstock.policy import read_console_secret
from penstock.records.account import Key, KeyId, Role

# A revoked key's pages end within this time.
_KEY_SECONDS: Final = 2.0
_SECRET_SECONDS: Final = 1.0
# Before the names of people, which are in the log of decisions beside the ids of keys.
_PERSON: Final = "person:"
_NAME: Final = re.compile(r"[!-~]{1,128}")


class Proxies:
    """Reads from requests of trusted proxies whom these have signed in."""

    def __init__(self, settings: ControlSettings) -> None:
        self._header = settings.console_person_header
        self._networks = tuple(ip_network(each) for each in settings.console_proxy_networks)
        self._role = Role(settings.console_person_role)

    def person_of(self, request: Request) -> Key | None:
        """Return what a person may do, as if it had a key; None if no proxy vouches for anybody."""
        if not self._header or not self._is_trusted(request):
            return None
        names = request.headers.getlist(self._header)
        # Two are the proxy's and one that came with the request: which is which, nobody knows.
        if len(names) != 1 or _NAME.fullmatch(names[0]) is None:
            return None
        return Key(KeyId(f"{_PERSON}{names[0]}"), self._role, None, name=names[0])

    def _is_trusted(self, request: Request) -> bool:
        if request.client is None:
            return False
        address = ip_address(request.client.host)
        if isinstance(address, IPv6Address):
            # An IPv4 client of a socket that listens on IPv6.
            address = address.ipv4_mapped or address
        return any(address in network for network in self._networks)


class Readers:
    """Finds the session and the key of each request for a page."""

    def __init__(
        self,
        rooms: OperatorRooms,
        settings: ControlSettings,
        clock: Clock,
        readings: SharedReadings,
        cookie: str,
    ) -> None:
        self._rooms = rooms
        self._settings = settings
        self._clock = clock
        self._readings = readings
        self._cookie = cookie
        self._proxies = Proxies(settings)
        self._known_cookies: SessionCookies | None = None
        self._asked: MinuteCounts[str] = MinuteCounts(settings.requests_per_minute, clock)

    async def cookies(self) -> SessionCookies:
        """Return what makes and reads cookies, with the secret that all control processes share."""
        if self._known_cookies is None:
            secret = await self._readings.read("secret", _SECRET_SECONDS, self._read_secret)
            self._known_cookies = SessionCookies(secret, self._settings, self._clock)
        return self._known_cookies

    async def find(self, request: Request) -> tuple[BrowserSession, Key]:
        """Return who asks; Unauthenticated for nobody, or for a key that was revoked."""
        session, person = await self._session(request)
        # A person without a cookie begins a session with each request.
        asker = session.nonce if person is None else session.key
        if self._asked.is_full(asker):
            raise RateLimited(
                "Too many pages at once.", retry_after_seconds=self._asked.seconds_left
            )
        self._asked.add(asker)
        if person is not None:
            return session, person
        # One statement for all readers, whoever they are.
        keys = await self._readings.read("keys", _KEY_SECONDS, self._rooms.keys.of_operators)
        return session, _not_revoked(keys.get(session.key))

    async def look_up(self, key: Key) -> Key:
        """Return a key that acts as Postgres has it now: one revoked a moment ago changes nothing.

        A person has no key there: its proxy vouched for it with this very request.
        """
        if key.id.startswith(_PERSON):
            return key
        return _not_revoked(await self._rooms.keys.find_by_id(key.id))

    async def _session(self, request: Request) -> tuple[BrowserSession, Key | None]:
        """Return the session of a request, and the person if a proxy vouches for one.

        A key that somebody signed in with counts for more than what the proxy says. A person's
        cookie counts for nothing without the proxy's word for the same person.
        """
        cookies = await self.cookies()
        session = cookies.read(cookie_of(request, self._cookie))
        if session is not None and not session.key.startswith(_PERSON):
            return session, None
        person = self._proxies.person_of(request)
        # Browsers keep the cookie back from a request that another site leads to: a new session
        # would take the place of the one that it belongs to.
        if person is None or is_from_another_site(request):
            raise Unauthenticated("Sign in.")
        if session is None or session.key != person.id:
            # As one that was not seen yet: its cookie is due with the answer.
            session = msgspec.structs.replace(cookies.begin(person.id), seen_at=0)
        return session, person

    async def _read_secret(self) -> bytes:
        async with self._rooms.store.transaction() as transaction:
            return await read_console_secret(transaction)


def _not_revoked(key: Key | None) -> Key:
    if key is None or key.is_revoked:
        raise Unauthenticated("This key is unknown or revoked.")
    return key
