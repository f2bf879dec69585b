"""Reads every charge of a period from the ledger, hour by hour, a page at a time.

A page bounds the memory, and an hour bounds each query. The export of an hour that is still being
written is incomplete: export only hours that are over.
"""

import uuid
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from penstock.metering.reports.focus import Charge, Kind
from penstock.metering.reports.usage_reports import check_period
from penstock.metering.settings import MeteringSettings
from penstock.store import Store
from penstock.wire.resources.usage_query import ReportPeriod

PAGE_ROWS: Final = 5000

Sink = Callable[[list[Charge]], None]

# A charge is rounded once, over all kinds of tokens. Its parts are the steps of the running sum,
# each rounded in the same way: no part is negative, and the parts add up to the charge.
_CHARGES: Final = """
declare usage_export no scroll cursor for
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
"""


async def export_charges(
    store: Store,
    settings: MeteringSettings,
    period: ReportPeriod,
    names: Mapping[str, str],
    sink: Sink,
) -> int:
    """Pass every charge of the period to `sink`, and return their number.

    `names` maps the accounts' ids to their names.
    """
    check_period(period.since, period.until, settings.report_days_max)
    count = 0
    hour = period.since
    while hour < period.until:
        count += await _export_hour(store, hour, names, sink)
        hour += timedelta(hours=1)
    return count


async def _export_hour(store: Store, hour: datetime, names: Mapping[str, str], sink: Sink) -> int:
    # Ids begin with their time and are the key of a day's partition, so an hour is a key range.
    first, after = _first_id(hour), _first_id(hour + timedelta(hours=1))
    count = 0
    async with store.transaction() as transaction:
        await transaction.execute(_CHARGES, (hour.date(), first, after))
        while rows := await transaction.fetch(f"fetch {PAGE_ROWS} from usage_export"):
            charges = [charge for row in rows for charge in _charges(hour, row, names)]
            sink(charges)
            count += len(charges)
    return count


def _first_id(hour: datetime) -> uuid.UUID:
    return uuid.UUID(int=int(hour.timestamp() * 1000) << 80)


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
