"""Screen 9: talk to a model as an agent does, with a runtime key that control holds for a while.

Control passes the bytes of requests and answers between the browser and a gateway, and reads none.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from typing import Final

from starlette.responses import Response, StreamingResponse

from penstock.clock import Clock
from penstock.console.fleet_operations import LIST_REPLICAS, ReplicasAsked
from penstock.console.rooms import OperatorRooms
from penstock.console.screens.page import Context, PageRequest
from penstock.console.screens.session_cookie import BrowserSession
from penstock.console.settings import ControlSettings
from penstock.errors import Forbidden, ReplicaUnreachable
from penstock.outbound import Caller, CallFailed, CallLimits, Guard, OutboundCall
from penstock.records.account import Role

_PATH: Final = "/v1/chat/completions"
_KEYS_MAX: Final = 1000
_ANSWER_BYTES_MAX: Final = 64 * 2**20
_CONNECT_SECONDS: Final = 5.0
# What the page may say of a request, and what it may see of an answer.
_ASKED: Final = ("x-penstock-workflow", "x-penstock-task", "x-session-affinity")
_ANSWERED: Final[tuple[str, ...]] = (
    "x-request-id", "x-penstock-replica", "x-penstock-contract", "x-penstock-task",
    "x-penstock-model", "x-penstock-model-why", "x-penstock-applied", "x-penstock-cost-usd",
)  # fmt: skip


class PlaygroundKeys:
    """Runtime keys of sessions, in this process' memory only, until the session is idle."""

    def __init__(self, settings: ControlSettings, clock: Clock) -> None:
        self._monotonic = clock.monotonic
        self._seconds = settings.console_idle_minutes * 60
        self._held: dict[str, tuple[float, str]] = {}

    def hold(self, session: BrowserSession, secret: str) -> None:
        """Hold a key for a session; the oldest goes where there are too many."""
        self._held.pop(session.nonce, None)
        while len(self._held) >= _KEYS_MAX:
            del self._held[next(iter(self._held))]
        self._held[session.nonce] = (self._monotonic() + self._seconds, secret)

    def find(self, session: BrowserSession) -> str | None:
        """Return the key of a session, and hold it for longer; None if there is none."""
        until, secret = self._held.get(session.nonce, (0.0, ""))
        if until <= self._monotonic():
            self._held.pop(session.nonce, None)
            return None
        self.hold(session, secret)
        return secret

    def forget(self, session: BrowserSession) -> None:
        self._held.pop(session.nonce, None)


class PlaygroundProxy:
    """Sends what the page asks to a gateway."""

    def __init__(self, rooms: OperatorRooms, settings: ControlSettings, clock: Clock) -> None:
        self.keys = PlaygroundKeys(settings, clock)
        self._rooms = rooms
        self._url = settings.console_gateway_url
        # The operator named the gateway: wherever it is, it is meant.
        self._guard = Guard(["0.0.0.0/0", "::/0"])
        self._caller = Caller(
            CallLimits(
                ca_file="",
                connect_seconds=_CONNECT_SECONDS,
                first_byte_seconds=settings.console_gateway_seconds,
                body_bytes_max=_ANSWER_BYTES_MAX,
                lookups_at_once_max=4,
                lookups_per_account_max=4,
            )
        )

    async def take_key(self, session: BrowserSession, secret: str) -> None:
        """Hold a runtime key for a session; Forbidden for any other."""
        key = await self._rooms.keys.find(secret.encode())
        if key is None or key.is_revoked or key.role is not Role.RUNTIME:
            raise Forbidden("The playground takes a runtime key: operators' keys do not infer.")
        self.keys.hold(session, secret)

    async def ask(
        self, session: BrowserSession, body: bytes, headers: Mapping[str, str]
    ) -> Response:
        """Send one chat request, and pass its answer on as it comes."""
        secret = self.keys.find(session)
        if secret is None or not self._url:
            raise Forbidden("Give the playground a runtime key first.")
        given = [(name, headers[name]) for name in _ASKED if headers.get(name)]
        call = OutboundCall(
            account="",
            url=self._url + _PATH,
            guard=self._guard,
            headers=[
                ("authorization", f"Bearer {secret}"),
                ("content-type", "application/json"),
                ("x-penstock-cost", "1"),
                *given,
            ],
            body=body,
        )
        async with AsyncExitStack() as opening:
            try:
                answer = await opening.enter_async_context(self._caller.open(call))
            except CallFailed as failed:
                raise ReplicaUnreachable(f"The gateway at {self._url}: {failed}.") from None
            open_call = opening.pop_all()

        async def pieces() -> AsyncIterator[bytes]:
            try:
                async for piece in answer.pieces():
                    yield piece
            except CallFailed:
                # The page sees that the stream is cut.
                return
            finally:
                await open_call.aclose()

        shown = {name: answer.headers[name] for name in _ANSWERED if name in answer.headers}
        if "x-request-id" in shown:
            # Control's own answer has an id of its own.
            shown["x-penstock-request"] = shown.pop("x-request-id")
        kind = answer.headers.get("content-type", "application/json")
        return StreamingResponse(pieces(), answer.status, shown, kind)


async def read_playground(page: PageRequest) -> Context:
    """Read which models run."""
    replicas = await page.read(LIST_REPLICAS, ReplicasAsked())
    return {"models": sorted({str(row.model) for row in replicas.replicas})}
