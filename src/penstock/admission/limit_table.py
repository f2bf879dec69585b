"""Limits in memory, as one worker knows them. Pure: it is told of changes and asks nobody.

`counting` finds the limits that a request counts for. For an account without limits it costs one
lookup.
"""

from collections.abc import Iterable
from typing import NamedTuple

from penstock.records.account import AccountId
from penstock.records.limit import Limit, Scope
from penstock.records.request import InferenceRequest

EACH = "*"

Counted = tuple[Limit, str]
# An account's limits by scope, as text (an Enum's own hash is slow), and by value.
_Groups = dict[str, dict[str, tuple[Limit, ...]]]
_GroupsByAccount = dict[AccountId, _Groups]


class LimitRow(NamedTuple):
    """A row of the table `limits`."""

    limit: Limit
    is_removed: bool


class LimitTable:
    """All limits, by account and by whom they are for."""

    def __init__(self) -> None:
        self._by_id: dict[int, Limit] = {}
        self._by_account: _GroupsByAccount = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def find(self, id: int) -> Limit | None:
        return self._by_id.get(id)

    def counting(self, request: InferenceRequest) -> tuple[Counted, ...]:
        """The limits that count this request, each with the value that it counts for.

        All that fit do: one for every key and one for this key hold both. A request without a
        workflow or session counts for no limit on workflows or sessions.
        """
        groups = self._by_account.get(request.account)
        if groups is None:
            return ()
        found: list[Counted] = []
        for scope, by_value in groups.items():
            if scope == Scope.ACCOUNT:
                found += [(limit, "") for limit in by_value[""]]
            elif label := getattr(request, scope):
                # The request has a field of each scope's name.
                value = as_stored(label)
                found += [(limit, value) for limit in by_value.get(EACH, ())]
                if value != EACH:
                    found += [(limit, value) for limit in by_value.get(value, ())]
        return tuple(found)

    def apply(self, rows: Iterable[LimitRow]) -> None:
        """Take in what was set, changed or removed."""
        for row in rows:
            limit = row.limit
            self._drop(limit)
            if not row.is_removed:
                self._by_id[limit.id] = limit
                groups = self._by_account.setdefault(limit.account, {})
                by_value = groups.setdefault(limit.scope.value, {})
                by_value[limit.value] = (*by_value.get(limit.value, ()), limit)

    def _drop(self, limit: Limit) -> None:
        # A limit's amount and hardness may change, what it is on never does.
        if self._by_id.pop(limit.id, None) is None:
            return
        groups = self._by_account[limit.account]
        by_value = groups[limit.scope.value]
        left = tuple(each for each in by_value.pop(limit.value) if each.id != limit.id)
        if left:
            by_value[limit.value] = left
        elif not by_value:
            del groups[limit.scope.value]
        if not groups:
            del self._by_account[limit.account]


def as_stored(label: str) -> str:
    """A caller's label as it stands in the ledger: Postgres takes no NUL and no half characters."""
    if label.isascii() and "\0" not in label:
        return label
    return label.replace("\0", "").encode("utf-8", "replace").decode()
