"""One worker's limits in memory. Pure: changes are passed in.

`counting` finds the limits that a request counts for. It costs one lookup for an account without
limits, and two for a caller that was looked up before.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from penstock.admission.counted_limit import CountedLimit
from penstock.records.account import AccountId
from penstock.records.limit import Limit, Measure, Scope
from penstock.records.request import InferenceRequest

EACH: Final = "*"
# How many callers' limits are cached. A bound, because callers name sessions as they like.
CALLERS_MAX: Final = 4096

_ACCOUNT: Final = Scope.ACCOUNT.value
_KEY: Final = Scope.KEY.value
_WORKFLOW: Final = Scope.WORKFLOW.value
_SESSION: Final = Scope.SESSION.value
# Account, key, workflow and session, the last two only where limits on them may count; and the
# label of the contract, which may own limits.
_Caller = tuple[str, str, str, str, str]


class LimitRow(NamedTuple):
    """A row of the table `limits`."""

    limit: Limit
    is_removed: bool


class _AccountLimits:
    """One account's limits, by scope and by value."""

    def __init__(self) -> None:
        # Scopes as text: an Enum's own hash is slow.
        self.by_scope: dict[str, dict[str, tuple[Limit, ...]]] = {}
        self.has_workflows = False
        self.has_sessions = False

    def note_scopes(self) -> None:
        self.has_workflows = _WORKFLOW in self.by_scope
        self.has_sessions = _SESSION in self.by_scope


_Accounts = dict[AccountId, _AccountLimits]


class LimitTable:
    """All limits: those of accounts by account, scope and value, the others by their contracts."""

    def __init__(self) -> None:
        self._by_id: dict[int, Limit] = {}
        self._by_account: _Accounts = {}
        self._by_contract: dict[str, tuple[Limit, ...]] = {}
        # The results of `counting` by caller, until any limit changes.
        self._known: dict[_Caller, tuple[CountedLimit, ...]] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def find(self, id: int) -> Limit | None:
        return self._by_id.get(id)

    def counting(self, request: InferenceRequest) -> tuple[CountedLimit, ...]:
        """Return the limits that count this request, each with the value that it counts for.

        All that match count: one for every key and one for this key both apply. A request without a
        workflow or session counts for no limit on workflows or sessions.
        """
        account, contract = request.account, request.labels.contract
        limits = self._by_account.get(account)
        owned = self._owned_by(contract) if contract else ()
        if limits is None and not owned:
            return ()
        workflow = session = ""
        if limits is not None:
            workflow = request.labels.workflow if limits.has_workflows else ""
            session = request.labels.session if limits.has_sessions else ""
        if owned:
            session = request.labels.session
        caller = (account, request.key, workflow, session, contract)
        known = self._known.get(caller)
        if known is None:
            if len(self._known) >= CALLERS_MAX:
                self._known.clear()
            labels = {_KEY: request.key, _WORKFLOW: workflow, _SESSION: session}
            known = () if limits is None else _counting(limits, labels)
            known += _owned(owned, account, session)
            self._known[caller] = known
        return known

    def _owned_by(self, label: str) -> tuple[Limit, ...]:
        """Return the limits of a contract, whose label has its version too."""
        return self._by_contract.get(contract_of(label), ()) if self._by_contract else ()

    def counting_refused(self, account: AccountId, key: str) -> list[CountedLimit]:
        """Return the limits on requests that count a request of this key that was refused unread.

        Its workflow and session are not known.
        """
        limits = self._by_account.get(account)
        if limits is None:
            return []
        found = _counting(limits, {_KEY: key})
        return [counted for counted in found if counted.limit.measure is Measure.REQUESTS]

    def apply(self, rows: Iterable[LimitRow]) -> None:
        """Apply limits that were set, changed or removed."""
        self._known.clear()
        for row in rows:
            self._drop(row.limit)
            if not row.is_removed:
                self._add(row.limit)

    def _add(self, limit: Limit) -> None:
        self._by_id[limit.id] = limit
        if limit.contract:
            owned = self._by_contract.get(limit.contract, ())
            self._by_contract[limit.contract] = (*owned, limit)
            return
        limits = self._by_account.get(limit.account)
        if limits is None:
            limits = self._by_account[limit.account] = _AccountLimits()
        by_value = limits.by_scope.setdefault(limit.scope.value, {})
        by_value[limit.value] = (*by_value.get(limit.value, ()), limit)
        limits.note_scopes()

    def _drop(self, limit: Limit) -> None:
        # A limit's amount and hardness may change, its owner, scope and value never do.
        if self._by_id.pop(limit.id, None) is None:
            return
        if limit.contract:
            owned = self._by_contract.pop(limit.contract)
            if len(owned) > 1:
                self._by_contract[limit.contract] = tuple(
                    each for each in owned if each.id != limit.id
                )
            return
        limits = self._by_account[limit.account]
        by_value = limits.by_scope[limit.scope.value]
        left = tuple(each for each in by_value.pop(limit.value) if each.id != limit.id)
        if left:
            by_value[limit.value] = left
        elif not by_value:
            del limits.by_scope[limit.scope.value]
            limits.note_scopes()
        if not limits.by_scope:
            del self._by_account[limit.account]


def _counting(limits: _AccountLimits, labels: dict[str, str]) -> tuple[CountedLimit, ...]:
    """Return the account's limits that count a request with these labels, by scope."""
    found: list[CountedLimit] = []
    for scope, by_value in limits.by_scope.items():
        if scope == _ACCOUNT:
            found += [CountedLimit(limit, "") for limit in by_value[""]]
        elif label := labels.get(scope):
            value = as_stored(label)
            found += [CountedLimit(limit, value) for limit in by_value.get(EACH, ())]
            if value != EACH:
                found += [CountedLimit(limit, value) for limit in by_value.get(value, ())]
    return tuple(found)


def _owned(limits: Iterable[Limit], account: AccountId, session: str) -> tuple[CountedLimit, ...]:
    """Return the limits of a contract that count a request; those on sessions if it names one."""
    label = as_stored(session)
    return tuple(
        CountedLimit(limit, owned_value(limit, account, label))
        for limit in limits
        if limit.scope is Scope.WORKFLOW or label
    )


def contract_of(label: str) -> str:
    """Return the name in a contract's label, such as `code-review@7`."""
    return label.rpartition("@")[0]


def owned_value(limit: Limit, account: AccountId, session: str) -> str:
    """Return for what a contract's limit counts: an account, or a session of it."""
    return f"{account}/{limit.value if limit.scope is Scope.WORKFLOW else session}"


def as_stored(label: str) -> str:
    """Return a caller's label as stored in the ledger: Postgres takes no NUL or lone surrogates."""
    if label.isascii() and "\0" not in label:
        return label
    return label.replace("\0", "").encode("utf-8", "replace").decode()
