"""Selects the sums of two periods, and turns them into the answer to "what changed?". Pure.

Prices come from the price book, hour by hour: the periods are cut where a price begins, and each
piece is summed by itself, so that its list cost is exact.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final, LiteralString, NamedTuple

from penstock.metering.prices import PriceBook, usd
from penstock.metering.reports.difference import PeriodUse, added, difference
from penstock.metering.reports.difference_facts import why
from penstock.metering.reports.model_use import ModelTier, ModelUse, TokenSums, merged, model_use
from penstock.metering.reports.statement import Statement
from penstock.records.model import ModelId
from penstock.records.price_book import Tier
from penstock.wire.resources.difference_query import DifferenceQuery
from penstock.wire.resources.usage_difference import ChangeParts, DifferenceAnswer, DifferenceRow
from penstock.wire.resources.usage_query import Label

_SUMS: Final[LiteralString] = (
    "sum(requests)::bigint, sum(attempts)::bigint, sum(prompt_tokens)::bigint,"
    " sum(prompt_tokens_known)::bigint, sum(cached_tokens)::bigint, sum(output_tokens)::bigint,"
    " sum(charge_nanousd)::bigint"
)
# `place` orders the groups and `row_place` the rows by the size of their change. What is beyond the
# limit keeps only the labels of its row, or none. An account is never null, so null says "other".
_SQL: Final = """
with sums as (
    select piece, is_after, account, workflow, model, tier, sum(requests) as requests,
        sum(attempts) as attempts, sum(prompt_tokens) as prompt_tokens,
        sum(prompt_tokens_known) as prompt_tokens_known, sum(cached_tokens) as cached_tokens,
        sum(output_tokens) as output_tokens, sum(charge_nanousd) as charge_nanousd
    -- Joined, so that the planner knows how few pieces there are, and finds each by the index.
    from unnest(%s::int[], %s::boolean[], %s::timestamptz[], %s::timestamptz[])
        as pieces (piece, is_after, since, until)
    join usage_hours on hour >= since and hour < until{filters}
    group by 1, 2, 3, 4, 5, 6
), changes as (
    select account, workflow,
        sum(case when is_after then charge_nanousd else -charge_nanousd end) as change
    from sums group by account, workflow
), ranked as (
    select account, workflow,
        row_number() over (order by abs(change) desc, account, workflow) as place,
        sum(change) over (partition by {row}) as row_change
    from changes
), placed as (
    select account, workflow, place,
        dense_rank() over (order by abs(row_change) desc, {row}) as row_place
    from ranked
)
select piece, is_after,
    case when row_place <= %s{keep_account} then account end as account,
    case when row_place <= %s{keep_workflow} then workflow end as workflow,
    model, tier, {sums}
from sums join placed using (account, workflow)
group by 1, 2, 3, 4, 5, 6
order by 1, 2
"""
_BEYOND: Final = " and place <= %s"

# The labels of a group; None for all groups beyond the limit.
_Group = tuple[str | None, str | None]


class _Piece(NamedTuple):
    """A part of one of the two periods in which no price changes."""

    is_after: bool
    since: datetime
    until: datetime


def difference_statement(query: DifferenceQuery, prices: PriceBook, groups_max: int) -> Statement:
    """Select sums by period, piece, account, workflow, model and tier, of at most so many groups.

    Rows by one label are made of groups by both, so at most twice as many groups are selected.
    """
    filters = "".join(f" and {label} = %s" for label in query.filters)
    # The label that is not a row's is kept for the first groups only.
    beyond = {
        label: "" if label in query.by else _BEYOND for label in (Label.ACCOUNT, Label.WORKFLOW)
    }
    limits: list[object] = []
    for each in beyond.values():
        limits += [groups_max, *([groups_max] if each else [])]
    sql = _SQL.format(
        filters=filters,
        row=", ".join(query.by),
        keep_account=beyond[Label.ACCOUNT],
        keep_workflow=beyond[Label.WORKFLOW],
        sums=_SUMS,
    )
    pieces = _pieces(query, prices)
    columns = (
        list(range(len(pieces))),
        [each.is_after for each in pieces],
        [each.since for each in pieces],
        [each.until for each in pieces],
    )
    params = (*columns, *query.filters.values(), *limits)
    return Statement(sql, params)


def difference_answer(
    query: DifferenceQuery, prices: PriceBook, rows: Iterable[Sequence[Any]]
) -> DifferenceAnswer:
    """Convert the rows of `difference_statement`."""
    groups = _groups(query, prices, rows)
    by_row: dict[tuple[str | None, ...], list[_Group]] = defaultdict(list)
    for group in groups:
        labels = dict(zip((Label.ACCOUNT, Label.WORKFLOW), group, strict=True))
        by_row[tuple(labels[label] for label in query.by)].append(group)
    parts = {group: difference(*periods) for group, periods in groups.items()}
    found = [
        _row(
            dict(zip(map(str, query.by), labels, strict=True)),
            [groups[group] for group in among],
            [parts[group] for group in among],
        )
        for labels, among in by_row.items()
    ]
    found.sort(key=lambda row: (row.is_other, -abs(row.change_nanousd), list(row.labels.values())))
    unpriced, dearer = _odd_models(groups.values())
    return DifferenceAnswer(
        since=query.since,
        until=query.until,
        against_since=query.against_since,
        against_until=query.against_until,
        by=tuple(map(str, query.by)),
        total=_row({}, list(groups.values()), list(parts.values())),
        rows=found,
        unpriced_models=unpriced,
        dearer_models=dearer,
    )


def _pieces(query: DifferenceQuery, prices: PriceBook) -> list[_Piece]:
    """Return both periods, cut where a price begins."""
    found = []
    for is_after, since, until in (
        (False, query.against_since, query.against_until),
        (True, query.since, query.until),
    ):
        starts = prices.starts_within(since.timestamp(), until.timestamp())
        cuts = [since, *(datetime.fromtimestamp(start, UTC) for start in starts), until]
        found += [_Piece(is_after, *each) for each in pairwise(cuts)]
    return found


def _groups(
    query: DifferenceQuery, prices: PriceBook, rows: Iterable[Sequence[Any]]
) -> dict[_Group, tuple[PeriodUse, PeriodUse]]:
    """Return both periods of each group, its pieces added up at their prices."""
    starts = [each.since.timestamp() for each in _pieces(query, prices)]
    requests: dict[tuple[_Group, bool], int] = defaultdict(int)
    uses: dict[tuple[_Group, bool], dict[ModelTier, list[ModelUse]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for piece, is_after, account, workflow, model, tier, count, *sums in rows:
        price = None
        if prices.knows(model):
            price = prices.price(ModelId(model), Tier(tier), starts[piece])
        at = ((account, workflow), is_after)
        requests[at] += count
        use = model_use(TokenSums(*sums), price)
        uses[at][model, tier].append(use)

    def period(group: _Group, is_after: bool) -> PeriodUse:
        at = (group, is_after)
        models = {name: merged(each) for name, each in uses.get(at, {}).items()}
        return PeriodUse(requests.get(at, 0), models)

    return {
        group: (period(group, False), period(group, True))
        for group in dict.fromkeys(group for group, _ in uses)
    }


def _row(
    labels: Mapping[str, str | None],
    groups: Sequence[tuple[PeriodUse, PeriodUse]],
    parts: Sequence[ChangeParts],
) -> DifferenceRow:
    before, after = (_together([group[side] for group in groups]) for side in (0, 1))
    sums = added(parts)
    change = after.charge_nanousd - before.charge_nanousd
    is_other = None in labels.values()
    return DifferenceRow(
        labels={} if is_other else {name: text or "" for name, text in labels.items()},
        is_other=is_other,
        before_nanousd=before.charge_nanousd,
        before_usd=usd(before.charge_nanousd),
        after_nanousd=after.charge_nanousd,
        after_usd=usd(after.charge_nanousd),
        change_nanousd=change,
        change_usd=usd(change),
        parts_nanousd=sums,
        why=why(before, after, sums),
    )


def _together(periods: Sequence[PeriodUse]) -> PeriodUse:
    if len(periods) == 1:
        return periods[0]
    uses: dict[ModelTier, list[ModelUse]] = defaultdict(list)
    for each in periods:
        for name, use in each.models.items():
            uses[name].append(use)
    models = {name: merged(each) for name, each in uses.items()}
    return PeriodUse(sum(each.requests for each in periods), models)


def _odd_models(
    groups: Iterable[tuple[PeriodUse, PeriodUse]],
) -> tuple[list[str], list[str]]:
    """Return models without a price, and those that were charged more than theirs."""
    sums: dict[tuple[ModelTier, int], list[ModelUse]] = defaultdict(list)
    for periods in groups:
        for side, period in enumerate(periods):
            for name, use in period.models.items():
                sums[name, side].append(use)
    unpriced, dearer = set(), set()
    for (name, _), each in sums.items():
        use = merged(each)
        if not use.is_listed:
            unpriced.add(name[0])
        elif use.charge_nanousd > ModelUse.rounded(use.list_units) + use.attempts:
            # Each attempt's charge was rounded by itself, by less than a nano-dollar.
            dearer.add(name[0])
    return sorted(unpriced), sorted(dearer)
