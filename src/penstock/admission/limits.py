"""Applies limits and budgets to requests: reserves from this worker's leases, and leases more.

Promises: while use stays within its estimate, all workers together never exceed a hard limit; while
Postgres answers, no request is refused over a limit before that call has asked it; an account with
no limits costs one lookup, and a sufficient lease no round trip. It writes only its own leases.
"""

import logging
import math
from collections import Counter

from penstock import errors
from penstock.admission.counted_limit import CountedLimit
from penstock.admission.division import Shortage
from penstock.admission.estimate import estimate
from penstock.admission.hold import NO_HOLD, HeldAmount, HeldAmounts, Hold
from penstock.admission.lease_desk import LeaseDesk
from penstock.admission.lease_queue import LeaseQueue
from penstock.admission.limit_mirror import LimitMirror
from penstock.admission.limit_notices import LimitNotices, Publish
from penstock.admission.lost_leases import release_holder
from penstock.admission.periodic_step import PeriodicStep
from penstock.admission.refusal import refusal
from penstock.admission.settings import AdmissionSettings
from penstock.admission.window_balances import WindowBalances
from penstock.clock import Clock
from penstock.records.account import AccountId, KeyId
from penstock.records.limit import Limit, Measure, Period, Scope
from penstock.records.request import InferenceRequest
from penstock.store import Store

logger = logging.getLogger(__name__)

LimitKind = tuple[Scope, Measure, Period]


class Limits:
    """One gateway worker's limits. `load`, keep `run` running, `close` when the journal is drained.

    `holder` is also the name of the worker's journal, so that the drain's books match its leases.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        settings: AdmissionSettings,
        holder: str,
        publish: Publish,
    ) -> None:
        self.refusals: Counter[LimitKind] = Counter()
        self.warnings: Counter[LimitKind] = Counter()
        # Requests that went on beyond their leases because Postgres was away.
        self.beyond_leases = 0
        self._store = store
        self._clock = clock
        self._settings = settings
        self._holder = holder
        self._mirror = LimitMirror(store, settings)
        self._balances = WindowBalances()
        self._desk = LeaseDesk(store, clock, settings, holder, self._balances)
        self._notices = LimitNotices(store, settings, publish)
        chores = (
            # First, because without it no lease can be written.
            PeriodicStep(self._desk.renew, settings.lease_seconds / 3),
            PeriodicStep(self._refresh, settings.limits_refresh_seconds),
            PeriodicStep(self._desk.give_back, settings.lease_return_seconds / 2),
            PeriodicStep(self._survey, settings.pots_survey_seconds),
            PeriodicStep(self._notices.write, settings.pots_survey_seconds),
            PeriodicStep(self._desk.sweep, settings.pots_survey_seconds),
        )
        self._queue = LeaseQueue(self._desk, chores, clock, settings)

    @property
    def failures(self) -> int:
        return self._queue.failures

    @property
    def leases_held(self) -> int:
        return self._balances.leases_held

    @property
    def lease_round_trips(self) -> int:
        return self._desk.round_trips

    def reserve(self, request: InferenceRequest) -> Hold | None:
        """Reserve what the request may use. Returns None when `lease` must ask Postgres."""
        counted = self._mirror.table.counting(request)
        if not counted:
            return NO_HOLD
        amounts = self._amounts(request, counted)
        for held in amounts:
            if not held.is_within_lease:
                return None
        return _reserved(amounts)

    async def lease(self, request: InferenceRequest) -> Hold:
        """Reserve after asking Postgres for more; raise OverLimit when there is not enough.

        While Postgres is away the account's setting decides: go on and record, or StoreUnavailable.
        """
        hold = self.reserve(request)
        if hold is not None:
            return hold
        amounts = self._amounts(request, self._mirror.table.counting(request))
        self._balances.open(amounts)
        try:
            answer = await self._queue.ask(amounts)
            if answer is None:
                return Hold(amounts)
            if isinstance(answer, Shortage):
                self.refusals[_kind(answer.balance.limit)] += 1
                self._notices.note_refused(answer)
                raise refusal(answer, self._clock.now(), self._settings.lease_return_seconds)
            return self._without_postgres(request, amounts)
        finally:
            self._balances.close(amounts)

    def count_refused(self, account: AccountId, key: KeyId) -> None:
        """Count an invalid request that was refused, on the limits of requests.

        Reading it has cost as much as reading a valid one. The ledger has no row of it, so it
        counts as long as this worker's lease lasts, which is at least as long as its minute.
        """
        for counted in self._mirror.table.counting_refused(account, key):
            self._balances.use(counted, self._clock.now())

    async def load(self) -> None:
        """Read all limits, waiting a while for Postgres if necessary."""
        await self._mirror.load()

    async def caught_up(self) -> None:
        """Return when all limits that were written before this call hold here, while `run` runs."""
        await self._mirror.caught_up()

    async def run(self) -> None:
        """Answer requests that wait for leases and keep everything up to date, for ever.

        After `load`, only this loop queries Postgres, one transaction at a time.
        """
        try:
            while True:
                await self._queue.work()
                if self._queue.is_away:
                    # Requests that go on without Postgres add balances; only this bounds them.
                    self._balances.forget_unused(self._settings.pots_max)
        finally:
            self._queue.end()

    async def close(self) -> None:
        """Return all leases. The journal is drained by now, so what was spent is booked."""
        try:
            async with self._store.transaction() as transaction:
                await release_holder(transaction, self._holder)
        except errors.StoreUnavailable:
            logger.warning("leases not given back", extra={"action": "leases_not_given_back"})

    def _amounts(self, request: InferenceRequest, counted: tuple[CountedLimit, ...]) -> HeldAmounts:
        balances, asked_at = self._balances, request.terms.asked_at
        return tuple(
            HeldAmount(balances.find(each, asked_at), estimate(request, each.limit.measure))
            for each in counted
        )

    def _without_postgres(self, request: InferenceRequest, amounts: HeldAmounts) -> Hold:
        if request.terms.on_outage_refuse:
            raise errors.StoreUnavailable(
                "What this gateway had leased of the account's limits is used up, and the database"
                " does not answer. This account is set to be refused then: try again soon.",
                retry_after_seconds=math.ceil(self._settings.outage_retry_seconds),
            )
        self.beyond_leases += 1
        return _reserved(amounts)

    async def _refresh(self) -> bool:
        if await self._mirror.refresh():
            self._balances.limits_changed(self._mirror.table)
            await self._desk.give_back()
        return self._mirror.is_current

    async def _survey(self) -> bool:
        """Warn of soft limits that are exceeded, then drop balances that are not needed."""
        passed = await self._desk.find_passed()
        self._notices.note_passed(passed)
        for balance in passed:
            limit = balance.limit
            self.warnings[_kind(limit)] += 1
            logger.warning(
                "limit passed, which only warns",
                extra={"action": "limit_passed", "limit": limit.id, "account": limit.account},
            )
        if not self._desk.is_surveyed:
            return False
        # A request that arrived just before a window's end may be counted a little later.
        ended = self._clock.now() - self._settings.lease_seconds
        self._balances.forget_ended(ended, self._mirror.table)
        self._balances.forget_unused(self._settings.pots_max)
        return True


def _reserved(amounts: HeldAmounts) -> Hold:
    for held in amounts:
        held.balance.reserve(held.amount)
    return Hold(amounts)


def _kind(limit: Limit) -> LimitKind:
    return limit.scope, limit.measure, limit.period
