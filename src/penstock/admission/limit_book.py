"""Stores limits in Postgres; the only writer of the table `limits`.

What was used in the current window before a limit was set counts as its base, where the hourly sums
show it: for days and months, of the account, of one key or of one workflow.
"""

from typing import Final

from penstock import errors
from penstock.admission.limit_states import LimitState, read_states
from penstock.admission.limit_table import EACH
from penstock.admission.settings import AdmissionSettings
from penstock.records.limit import Limit, Measure, Period, Scope
from penstock.store import Store, Transaction

AMOUNT_MAX: Final = 10**18
VALUE_CHARACTERS_MAX: Final = 256

_REPLACE: Final = """
    update limits set amount = %s, is_hard = %s, revision = %s
    where account = %s and scope = %s and value = %s and measure = %s and period = %s
      and not is_removed
    returning id
"""
_INSERT: Final = """
    insert into limits (amount, is_hard, revision, account, scope, value, measure, period,
                        base_window, base_amount)
    select %s, %s, %s, %s, %s, %s, %s, period, date_trunc(period, now(), 'UTC'), %s
    from (select %s::text as period) of_limit
    returning id
"""
_BASE: Final = """
    select coalesce(sum(requests), 0), coalesce(sum(prompt_tokens + output_tokens), 0),
           coalesce(sum(charge_nanousd), 0)
    from usage_hours
    where account = %s and hour >= date_trunc(%s, now(), 'UTC')
      and (%s::text <> 'key' or key = %s) and (%s::text <> 'workflow' or workflow = %s)
"""
_CONTAINERS: Final = """
    select coalesce(sum(charge_nanousd), 0)::bigint from container_usage
    where account = %s and day >= (date_trunc(%s, now(), 'UTC') at time zone 'UTC')::date
"""


class LimitBook:
    """Sets, lists and removes limits. Gateways apply a change in `limits_refresh_seconds`."""

    def __init__(self, store: Store, settings: AdmissionSettings) -> None:
        self._store = store
        self._limits_max = settings.limits_max

    async def create(self, wanted: Limit) -> Limit:
        """Set a limit, ignoring its id: an existing one on the same scope and value is changed."""
        _check(wanted)
        facts = (wanted.amount, wanted.is_hard)
        place = (wanted.account, wanted.scope.value, wanted.value, wanted.measure.value)
        period = wanted.period.value
        async with self._store.transaction() as transaction:
            revision = await next_revision(transaction)
            await _check_account_and_key(transaction, wanted)
            row = await transaction.fetch_one(_REPLACE, (*facts, revision, *place, period))
            if row is None:
                await self._check_count(transaction)
                base = await _read_base(transaction, wanted)
                row = await transaction.fetch_one(_INSERT, (*facts, revision, *place, base, period))
            assert row is not None, "an insert returns its row"
        scope, measure, value = wanted.scope, wanted.measure, wanted.value
        return Limit(row[0], wanted.account, scope, value, measure, wanted.period, *facts)

    async def list(
        self, account: str | None = None, *, limit: int = 10_000
    ) -> tuple[LimitState, ...]:
        """Return the states of one account's limits, or of all limits, the oldest first."""
        async with self._store.transaction() as transaction:
            return await read_states(transaction, account, limit)

    async def remove(self, id: int) -> None:
        """Remove a limit. A new limit on the same scope does not take over its counts."""
        async with self._store.transaction() as transaction:
            revision = await next_revision(transaction)
            found = await transaction.execute(
                "update limits set is_removed = true, revision = %s"
                " where id = %s and not is_removed and contract = ''",
                (revision, id),
            )
            if not found:
                owner = await transaction.fetch_one(
                    "select contract from limits where id = %s and not is_removed", (id,)
                )
                raise _not_removable(id, "" if owner is None else owner[0])

    async def _check_count(self, transaction: Transaction) -> None:
        row = await transaction.fetch_one("select count(*) from limits where not is_removed")
        if row is not None and row[0] >= self._limits_max:
            raise errors.InvalidRequest(
                f"There are {row[0]} limits already. Raise admission.limits_max on every gateway."
            )


def _not_removable(id: int, owner: str) -> errors.Error:
    if not owner:
        return errors.NotFound(f"There is no limit {id}.")
    return errors.Conflict(
        f"Limit {id} belongs to the contract {owner}: change its [budget], and apply it."
    )


async def next_revision(transaction: Transaction) -> int:
    """Take the next revision; writers wait for each other here, as in policy (migrations/0001)."""
    row = await transaction.fetch_one(
        "update limits_revision set revision = revision + 1 returning revision"
    )
    assert row is not None, "limits_revision has lost its row"
    return int(row[0])


def _check(wanted: Limit) -> None:
    if not 0 <= wanted.amount <= AMOUNT_MAX:
        raise errors.InvalidRequest(f"An amount is 0 to {AMOUNT_MAX}.", param="amount")
    is_named = 0 < len(wanted.value) <= VALUE_CHARACTERS_MAX and wanted.value.isprintable()
    if wanted.scope is Scope.ACCOUNT and wanted.value:
        raise errors.InvalidRequest("A limit on an account names nothing else.", param="value")
    if wanted.scope is not Scope.ACCOUNT and not is_named:
        raise errors.InvalidRequest(
            f"Name the {wanted.scope} by 1 to {VALUE_CHARACTERS_MAX} printable characters, or all"
            f" of them, each by itself, by `{EACH}`.",
            param="value",
        )


async def _check_account_and_key(transaction: Transaction, wanted: Limit) -> None:
    if not await transaction.fetch_one("select 1 from accounts where id = %s", (wanted.account,)):
        raise errors.NotFound(f"There is no account {wanted.account}.")
    if wanted.scope is Scope.KEY and wanted.value != EACH:
        found = await transaction.fetch_one(
            "select 1 from keys where id = %s and account_id = %s", (wanted.value, wanted.account)
        )
        if found is None:
            raise errors.NotFound(f"Account {wanted.account} has no key {wanted.value}.")


async def _read_base(transaction: Transaction, wanted: Limit) -> int:
    is_summed = wanted.scope is not Scope.SESSION and wanted.value != EACH
    if not is_summed or wanted.period is Period.MINUTE:
        return 0
    scope, value = wanted.scope.value, wanted.value
    row = await transaction.fetch_one(
        _BASE, (wanted.account, wanted.period.value, scope, value, scope, value)
    )
    assert row is not None, "sums always have a row"
    requests, tokens, nanousd = map(int, row)
    if wanted.scope is Scope.ACCOUNT:
        # Containers belong to an account, and to no key or workflow.
        used = await transaction.fetch_one(_CONTAINERS, (wanted.account, wanted.period.value))
        assert used is not None, "sums always have a row"
        nanousd += used[0]
    return {Measure.REQUESTS: requests, Measure.TOKENS: tokens, Measure.NANOUSD: nanousd}[
        wanted.measure
    ]
