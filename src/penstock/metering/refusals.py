"""Counts refusals by minute, account, key and reason, instead of storing each one.

The counts are statistics, not money: a kill may lose the last second of them, and a Postgres outage
during a commit may count one second twice.
"""

from typing import Final

from penstock.store import Store

_OTHER: Final = "other"
_ADD: Final = """
insert into usage_refusals as r (minute, account, key, reason, count)
select to_timestamp(minute * 60), account, key, reason, count
from unnest(%s::bigint[], %s::text[], %s::text[], %s::text[], %s::bigint[])
    as counted (minute, account, key, reason, count)
order by account, minute, key, reason
on conflict (account, minute, key, reason) do update set count = r.count + excluded.count
"""


class Refusals:
    """A worker's counters since the last flush, at most `counters_max` of them."""

    def __init__(self, store: Store, counters_max: int) -> None:
        self._store = store
        self._counters_max = counters_max
        self._counts: dict[tuple[int, str, str, str], int] = {}

    def count(self, at: float, account: str, key: str, reason: str) -> None:
        counter = (int(at // 60), account, key, reason)
        if counter not in self._counts and len(self._counts) >= self._counters_max:
            counter = (counter[0], _OTHER, _OTHER, reason)
        self._counts[counter] = self._counts.get(counter, 0) + 1

    async def flush(self) -> None:
        """Add the counts to Postgres; on StoreUnavailable they stay for the next flush."""
        if not self._counts:
            return
        counts = self._counts.copy()
        columns = [list(column) for column in zip(*counts, strict=True)]
        async with self._store.transaction() as transaction:
            await transaction.execute(_ADD, (*columns, list(counts.values())))
        for counter, count in counts.items():
            left = self._counts[counter] - count
            if left:
                self._counts[counter] = left
            else:
                del self._counts[counter]

    def waiting(self) -> int:
        return len(self._counts)
