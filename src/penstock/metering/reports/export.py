"""Reads every charge of a period from the ledger, hour by hour, a page at a time.

A page bounds the memory, and an hour bounds each query. The export of an hour that is still being
written is incomplete: export only hours that are over.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from penstock.clock import first_id_at
from penstock.metering.reports.focus import Charge, Kind
from penstock.store import Store

PAGE_ROWS: Final = 2000

# A charge is rounded once, over all kinds of tokens. Its parts are the steps of the running sum,
# each rounded in the same way: no part is negative, and the parts add up to the charge.
_CHARGES: Final = """
select account, key, model, tier, workflow, charge_reason, multiplier_bp,
    input_nanousd_per_mtok, cached_input_nanousd_per_mtok, output_nanousd_per_mtok,
    sum(prompt - cached)::bigint, sum(cached)::bigint, sum(output)::bigint,
    sum(upto_input)::bigint, sum(upto_cached - upto_input)::bigint,
    sum(charge_nanousd - upto_cached)::bigint
from (
    select *,
        least(charge_nanousd, div(
            (prompt - cached)::numeric * input_nanousd_per_mtok * multiplier_bp + 5000000000,
            10000000000)) as upto_input,
        least(charge_nanousd, div(
            ((prompt - cached)::numeric * input_nanousd_per_mtok
             + cached::numeric * cached_input_nanousd_per_mtok) * multiplier_bp + 5000000000,
            10000000000)) as upto_cached
    from (
        select *,
            coalesce(prompt_tokens, 0) as prompt,
            least(coalesce(cached_tokens, 0), coalesce(prompt_tokens, 0)) as cached,
            coalesce(output_tokens, 0) as output
        from usage_attempts
        where day = %s and request >= %s and request < %s
    ) counted
) split
group by 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
order by 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
limit %s offset %s
"""


async def read_charges(
    store: Store, hour: datetime, first: int, names: Mapping[str, str]
) -> tuple[list[Charge], int | None]:
    """Return a page of an hour's charges, from the `first` group on; and where the next begins.

    `names` maps the accounts' ids to their names.
    """
    # Ids begin with their time and are the key of a day's partition, so an hour is a key range.
    start = hour.timestamp()
    ids = (first_id_at(start), first_id_at(start + timedelta(hours=1).total_seconds()))
    day = hour.astimezone(UTC).date()
    async with store.transaction() as transaction:
        rows = await transaction.fetch(_CHARGES, (day, *ids, PAGE_ROWS, first))
    charges = [charge for row in rows for charge in _charges(hour, row, names)]
    return charges, first + PAGE_ROWS if len(rows) == PAGE_ROWS else None


def _charges(hour: datetime, row: tuple[Any, ...], names: Mapping[str, str]) -> list[Charge]:
    account, key, model, tier, workflow, reason, multiplier = row[:7]
    prices, tokens, money = row[7:10], row[10:13], row[13:16]
    return [
        Charge(
            hour=hour,
            account=account,
            account_name=names.get(account),
            key=key,
            model=model,
            tier=tier,
            workflow=workflow,
            kind=kind,
            tokens=count,
            nanousd_per_mtok=price,
            multiplier_bp=multiplier,
            charge_nanousd=charge,
            charge_reason=reason,
        )
        for kind, price, count, charge in zip(Kind, prices, tokens, money, strict=True)
        if count or charge
    ]
