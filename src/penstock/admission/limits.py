"""Limits and budgets on the path: reserve from what is leased, lease more when it is used up.

Promises: while use stays within its estimate, all workers together never pass a hard limit; while
Postgres answers, nobody is refused before it was asked in that very call; an account without limits
costs one lookup, and a slice that lasts costs no round trip. It writes the table `leases` only.
"""

import asyncio
import logging
import math
from collections import Counter, deque
from collections.abc import Awaitable, Callable

from penstock import errors
from penstock.admission.division import Demand, Shortage
from penstock.admission.estimate import estimate
from penstock.admission.hold import NO_HOLD, Claims, Hold
from penstock.admission.lease_desk import LeaseDesk
from penstock.admission.limit_mirror import LimitMirror
from penstock.admission.limit_table import Counted
from penstock.admission.lost_leases import release_holder
from penstock.admission.pots import Pots
from penstock.admission.refusal import refusal
from penstock.admission.settings import Settings
from penstock.clock import Clock
from penstock.records.limit import Limit, Measure, Period, Scope
from penstock.records.request import InferenceRequest
from penstock.store import Store

logger = logging.getLogger(__name__)

LimitKind = tuple[Scope, Measure, Period]
_Answer = Shortage | errors.StoreUnavailable | None
_Job = Callable[[], Awaitable[None]]


class Limits:
    """One per gateway worker. `load`, keep `run` running, `close` when the journal is drained.

    `holder` names the worker as its journal is named, so that the drain's books match its leases.
    """

    def __init__(self, store: Store, clock: Clock, settings: Settings, holder: str) -> None:
        self.refusals: Counter[LimitKind] = Counter()
        self.warnings: Counter[LimitKind] = Counter()
        # Requests that went on beyond their leases because Postgres was away.
        self.beyond_leases = 0
        self.failures = 0
        self._store = store
        self._clock = clock
        self._settings = settings
        self._holder = holder
        self._mirror = LimitMirror(store, settings)
        self._pots = Pots()
        self._desk = LeaseDesk(store, clock, settings, holder, self._pots)
        self._waiting: deque[Demand] = deque()
        self._wanted = asyncio.Event()
        self._is_away = False
        # What the loop does beside answering, and how often.
        self._jobs: tuple[tuple[_Job, float], ...] = (
            (self._refresh, settings.limits_refresh_seconds),
            (self._desk.give_back, settings.lease_return_seconds / 2),
            (self._desk.renew, settings.lease_seconds / 3),
            (self._survey, settings.pots_survey_seconds),
        )
        self._done_at = [clock.monotonic()] * len(self._jobs)

    @property
    def leases_held(self) -> int:
        return self._pots.leases_held

    @property
    def lease_round_trips(self) -> int:
        return self._desk.round_trips

    def reserve(self, request: InferenceRequest) -> Hold | None:
        """Reserve what the request may use. None when Postgres must be asked: see `lease`."""
        counted = self._mirror.table.counting(request)
        if not counted:
            return NO_HOLD
        claims = self._claims(request, counted)
        for pot, amount in claims:
            if amount and pot.limit.is_hard and pot.room < amount:
                return None
        return _reserved(claims)

    async def lease(self, request: InferenceRequest) -> Hold:
        """Reserve, asking Postgres for more; OverLimit when there is not enough.

        While Postgres is away the account decides: go on and record, or StoreUnavailable.
        """
        hold = self.reserve(request)
        if hold is not None:
            return hold
        claims = self._claims(request, self._mirror.table.counting(request))
        self._pots.open(claims)
        answer = errors.StoreUnavailable() if self._is_away else await self._ask(claims)
        if answer is None:
            return Hold(claims)
        if isinstance(answer, Shortage):
            self.refusals[_kind(answer.pot.limit)] += 1
            raise refusal(answer, self._clock.now(), self._settings.lease_return_seconds)
        return self._without_postgres(request, claims)

    async def load(self) -> None:
        """Read all limits, waiting for Postgres a while if need be."""
        await self._mirror.load()

    async def run(self) -> None:
        """Answer those that wait for leases and keep everything up to date, for ever.

        All that is asked of Postgres after `load` is asked here, one transaction at a time.
        """
        pause = min(every for _, every in self._jobs)
        try:
            while True:
                await self._wait_for_turn(
                    self._settings.outage_retry_seconds if self._is_away else pause
                )
                await self._work()
        finally:
            self._is_away = True
            _turn_away(self._waiting)

    async def close(self) -> None:
        """Give everything back. The journal is drained by now, so what was spent is booked."""
        try:
            async with self._store.transaction() as transaction:
                await release_holder(transaction, self._holder)
        except errors.StoreUnavailable:
            logger.warning("leases not given back", extra={"action": "leases_not_given_back"})

    def _claims(self, request: InferenceRequest, counted: tuple[Counted, ...]) -> Claims:
        asked_at = request.asked_at
        return tuple(
            (self._pots.find(each, asked_at), estimate(request, each[0].measure))
            for each in counted
        )

    async def _ask(self, claims: Claims) -> _Answer:
        """Wait for the loop's next transaction, but not for ever."""
        if len(self._waiting) >= self._settings.lease_waiting_max:
            raise errors.Overloaded("Too many requests wait for a part of their limits.")
        answer: asyncio.Future[_Answer] = asyncio.get_running_loop().create_future()
        demand = Demand(claims, answer)
        self._waiting.append(demand)
        self._wanted.set()
        try:
            async with asyncio.timeout(self._settings.lease_wait_seconds):
                return await answer
        except TimeoutError:
            if not answer.cancelled():
                # The answer came at the last moment.
                return answer.result()
            self._is_away = True
            return errors.StoreUnavailable()
        except asyncio.CancelledError:
            if not answer.cancelled() and answer.result() is None:
                demand.release()
            raise

    def _without_postgres(self, request: InferenceRequest, claims: Claims) -> Hold:
        if request.on_outage_refuse:
            raise errors.StoreUnavailable(
                "What this gateway had leased of the account's limits is used up, and the database"
                " does not answer. This account is set to be refused then: try again soon.",
                retry_after_seconds=math.ceil(self._settings.outage_retry_seconds),
            )
        self.beyond_leases += 1
        return _reserved(claims)

    async def _wait_for_turn(self, pause: float) -> None:
        if self._waiting and not self._is_away:
            return
        self._wanted.clear()
        try:
            async with asyncio.timeout(pause):
                await self._wanted.wait()
        except TimeoutError:
            return

    async def _work(self) -> None:
        count = min(len(self._waiting), self._settings.lease_batch_max)
        demands = [self._waiting.popleft() for _ in range(count)]
        try:
            if demands:
                self._waiting.extendleft(reversed(await self._desk.serve(demands)))
            await self._do_what_is_due()
        except errors.StoreUnavailable:
            self._failed(demands)
            logger.warning("limits not kept up", extra={"action": "limits_not_kept_up"})
        except Exception:
            # The loop's top: whatever this is, requests must find an answer.
            self._failed(demands)
            logger.exception("limits not kept up", extra={"action": "limits_not_kept_up"})
        else:
            self._is_away = False

    def _failed(self, demands: list[Demand]) -> None:
        self.failures += 1
        self._is_away = True
        _turn_away(demands)
        _turn_away(self._waiting)

    async def _do_what_is_due(self) -> None:
        for place, (job, every) in enumerate(self._jobs):
            now = self._clock.monotonic()
            if self._is_away or now - self._done_at[place] >= every:
                await job()
                self._done_at[place] = now

    async def _refresh(self) -> None:
        if await self._mirror.refresh():
            self._pots.limits_changed(self._mirror.table)
            await self._desk.give_back()

    async def _survey(self) -> None:
        await self._desk.drop_ended(self._mirror.table)
        for pot in await self._desk.find_passed():
            limit = pot.limit
            self.warnings[_kind(limit)] += 1
            logger.warning(
                "limit passed, which only warns",
                extra={"action": "limit_passed", "limit": limit.id, "account": limit.account},
            )


def _reserved(claims: Claims) -> Hold:
    for pot, amount in claims:
        pot.reserve(amount)
    return Hold(claims)


def _turn_away(demands: list[Demand] | deque[Demand]) -> None:
    for demand in demands:
        if not demand.answer.done():
            demand.answer.set_result(errors.StoreUnavailable())
    demands.clear()


def _kind(limit: Limit) -> LimitKind:
    return limit.scope, limit.measure, limit.period
