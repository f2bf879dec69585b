"""Reads what a request is compared with: other replicas in its hour, and what was usual before."""

from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from penstock.metering.reports.quantiles import quantile_ms
from penstock.metering.reports.rows import ratio
from penstock.metering.reports.sums import OF_HOURS
from penstock.metering.reports.usage_reports import UsageReports
from penstock.wire.resources.explanation import RefusedMinute, ReplicaHour, UsualRequest
from penstock.wire.resources.usage import AttemptAnswer

_HOUR: Final = timedelta(hours=1)
_USUAL: Final = timedelta(days=7)
_MINUTE: Final = timedelta(minutes=1)
_REASONS_MAX: Final = 50
_REPLICAS: Final = f"""
    select replica, sum(requests)::bigint, sum(failed)::bigint, {OF_HOURS["first_token"]}
    from replica_hours where hour >= %s and hour < %s and model = %s
    group by replica order by replica limit 1000
"""  # noqa: S608 - our own columns
_SUMS: Final = (
    "requests", "prompt_tokens", "output_tokens", "prompt_tokens_known", "cached_tokens",
    "charge_nanousd", "first_token",
)  # fmt: skip
_BEFORE: Final = f"""
    select {", ".join(OF_HOURS[name] for name in _SUMS)} from usage_hours
    where account = %s and hour >= %s and hour < %s and model = %s and tier = %s and workflow = %s
"""  # noqa: S608 - our own columns
_REFUSED: Final = """
    select account, reason, sum(count)::bigint from usage_refusals
    where minute >= %s and minute < %s and (%s::text is null or account = %s)
    group by 1, 2 order by 3 desc, 1, 2 limit %s
"""


class Surroundings(msgspec.Struct, frozen=True):
    """What a request is compared with."""

    replicas: list[ReplicaHour]
    usual: UsualRequest | None


async def read_surroundings(reports: UsageReports, attempt: AttemptAnswer) -> Surroundings:
    """Read what is compared with an attempt, from hourly sums."""
    hour = attempt.asked_at.replace(minute=0, second=0, microsecond=0)
    labels = (attempt.model, attempt.tier, attempt.workflow)
    async with reports.reading() as transaction:
        # The hour before counts too: an incident does not begin on the hour.
        rows = await transaction.fetch(_REPLICAS, (hour - _HOUR, hour + _HOUR, attempt.model))
        before = await transaction.fetch_one(
            _BEFORE, (attempt.account, hour - _USUAL, hour, *labels)
        )
    replicas = [
        ReplicaHour(
            replica=replica,
            requests=requests,
            failed=failed,
            first_token_p50_ms=quantile_ms(histogram, 0.5),
        )
        for replica, requests, failed, histogram in rows
    ]
    return Surroundings(replicas, None if before is None else _usual(before))


async def read_refused(
    reports: UsageReports, asked_at: datetime, account: str | None
) -> list[RefusedMinute]:
    """Count the refusals of a request's minute, of one account or of all."""
    minute = asked_at.replace(second=0, microsecond=0)
    values = (minute, minute + _MINUTE, account, account, _REASONS_MAX)
    async with reports.reading() as transaction:
        rows = await transaction.fetch(_REFUSED, values)
    return [
        RefusedMinute(account=owner, reason=reason, count=count) for owner, reason, count in rows
    ]


def _usual(row: tuple[Any, ...]) -> UsualRequest | None:
    if not row[0]:
        return None
    requests, prompt, output, known, cached, charge, histogram = row
    return UsualRequest(
        requests=requests,
        prompt_tokens=prompt / requests,
        output_tokens=output / requests,
        hit_ratio=ratio(cached, known),
        cost_nanousd=charge / requests,
        first_token_p50_ms=quantile_ms(histogram, 0.5),
        first_token_p95_ms=quantile_ms(histogram, 0.95),
    )
