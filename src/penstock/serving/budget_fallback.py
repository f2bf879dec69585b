"""Reserves a request's money; where it is short, that of the cheaper model of its contract.

Once, never a chain: the cheaper model's own refusal is the answer. A session that has fallen back
stays with that model in this worker for a while, so that it does not go back and forth between two
prefix caches whenever a lease comes back.
"""

from typing import Final, NamedTuple

from penstock.admission import Hold
from penstock.clock import Clock
from penstock.contracts.settings import ContractsSettings
from penstock.errors import BudgetSpent
from penstock.intake.caller_headers import CallerHeaders
from penstock.intake.opened_request import OpenedRequest
from penstock.intake.request_reader import RequestReader
from penstock.records.limit import Measure
from penstock.records.request import Api, InferenceRequest
from penstock.serving.request_path import RequestPath

# Why a request is served by the cheaper model.
_SPENT: Final = BudgetSpent.code
_SHARE: Final = "left_share"
_HELD: Final = "held"

# An account, the name of a contract, and a session of it.
_Session = tuple[str, str, int]


class Admitted(NamedTuple):
    """A request as it will run, with what it holds of its limits."""

    opened: OpenedRequest
    request: InferenceRequest
    hold: Hold


class BudgetFallback:
    """One per worker. Only for requests whose `unread` fields are kept."""

    def __init__(
        self, reader: RequestReader, path: RequestPath, clock: Clock, settings: ContractsSettings
    ) -> None:
        self._reader = reader
        self._path = path
        self._monotonic = clock.monotonic
        self._hold_seconds = settings.fallback_hold_seconds
        self._sessions_max = settings.fallback_sessions_max
        # Until when a session stays with the cheaper model, the oldest first.
        self._held: dict[_Session, float] = {}

    async def admit(
        self, request: InferenceRequest, opened: OpenedRequest, headers: CallerHeaders
    ) -> Admitted:
        """Return the request, or the same for the cheaper model; raise the refusal of a limit."""
        session = _session(request, opened)
        if self._held.get(session, 0.0) > self._monotonic():
            other = await self._read(request, opened, headers, _HELD)
            if other is not None:
                return Admitted(*other, await self._path.reserve(other[1]))
        try:
            hold = await self._path.reserve(request)
        except BudgetSpent:
            other = await self._read(request, opened, headers, _SPENT)
            if other is None:
                raise
        else:
            is_short = _left_share(hold) < _share_min(opened)
            other = await self._read(request, opened, headers, _SHARE) if is_short else None
            if other is None:
                return Admitted(opened, request, hold)
            hold.drop()
        hold = await self._path.reserve(other[1])
        self._remember(session)
        return Admitted(*other, hold)

    async def _read(
        self, request: InferenceRequest, opened: OpenedRequest, headers: CallerHeaders, reason: str
    ) -> tuple[OpenedRequest, InferenceRequest] | None:
        return await self._reader.read_by_size(
            opened.body_bytes,
            lambda reader: reader.read_fallback(request, headers, opened, reason),
            opened.route.inline_bytes_max,
        )

    def _remember(self, session: _Session) -> None:
        if not session[-1]:
            return
        # Written again, so that the order is that of the times.
        self._held.pop(session, None)
        if len(self._held) >= self._sessions_max:
            del self._held[next(iter(self._held))]
        self._held[session] = self._monotonic() + self._hold_seconds


def _session(request: InferenceRequest, opened: OpenedRequest) -> _Session:
    """Return the session that a request belongs to; its last part is 0 if it belongs to none."""
    assert opened.contract is not None, "a contract has the cheaper model"
    key = request.placement.session_key
    if request.api is Api.COMPLETIONS and not request.labels.session:
        # Its prompt begins no conversation, and so there is no cache to keep.
        key = 0
    return request.account, opened.contract.contract.name, key


def _share_min(opened: OpenedRequest) -> float:
    fallback = None if opened.contract is None else opened.contract.contract.fallback
    return 0.0 if fallback is None else fallback.left_share_min


def _left_share(hold: Hold) -> float:
    """Return how much is left of the tightest limit on money, as far as this worker knows."""
    return min(
        (
            each.left / max(each.limit.amount, 1)
            for each in hold.standings
            if each.limit.measure is Measure.NANOUSD
        ),
        default=1.0,
    )
