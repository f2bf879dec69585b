"""Which limits count a request, and how changes are taken in."""

from tests.unit.admission.limit_samples import a_limit, a_request

from penstock.admission.limit_table import CALLERS_MAX, LimitRow, LimitTable
from penstock.records.account import AccountId, KeyId
from penstock.records.limit import Limit, Measure, Scope


def table_of(*limits: Limit) -> LimitTable:
    table = LimitTable()
    table.apply(LimitRow(limit, is_removed=False) for limit in limits)
    return table


def counted(table: LimitTable, **fields: object) -> list[tuple[int, str]]:
    return [(each.limit.id, each.value) for each in table.counting(a_request(**fields))]


def test_an_accounts_limit_counts_its_requests_and_no_others() -> None:
    table = table_of(a_limit(id=7))
    assert counted(table) == [(7, "")]
    assert counted(table, account=AccountId("b" * 32)) == []


def test_a_limit_on_one_key_and_one_on_each_key_both_count() -> None:
    table = table_of(
        a_limit(id=1, scope=Scope.KEY, value="*"), a_limit(id=2, scope=Scope.KEY, value="k")
    )
    assert counted(table) == [(1, "k"), (2, "k")]
    assert counted(table, key=KeyId("other")) == [(1, "other")]


def test_a_request_without_a_label_counts_for_no_limit_on_labels() -> None:
    table = table_of(
        a_limit(id=1, scope=Scope.WORKFLOW, value="*"),
        a_limit(id=2, scope=Scope.SESSION, value="*"),
    )
    assert counted(table) == []
    assert counted(table, workflow="w", session="s") == [(1, "w"), (2, "s")]


def test_a_session_that_is_called_like_all_is_counted_once() -> None:
    table = table_of(a_limit(id=1, scope=Scope.SESSION, value="*"))
    assert counted(table, session="*") == [(1, "*")]


def test_labels_count_as_the_ledger_stores_them() -> None:
    table = table_of(a_limit(id=1, scope=Scope.SESSION, value="*"))
    assert counted(table, session="a\0b") == [(1, "ab")]
    assert counted(table, session="naïve") == [(1, "naïve")]
    assert counted(table, session="half \ud800") == [(1, "half ?")]


def test_a_change_takes_the_old_ones_place_and_a_removal_leaves_nothing() -> None:
    one, two = a_limit(id=1), a_limit(id=2, amount=5)
    table = table_of(one, two)
    assert len(table) == 2
    changed = a_limit(id=1, amount=7)
    table.apply([LimitRow(changed, is_removed=False)])
    assert len(table) == 2
    assert table.find(1) == changed
    assert {each.limit.amount for each in table.counting(a_request())} == {5, 7}
    table.apply([LimitRow(changed, is_removed=True), LimitRow(two, is_removed=True)])
    assert len(table) == 0
    assert table.find(1) is None
    assert counted(table) == []


def test_removing_one_scope_keeps_the_others() -> None:
    table = table_of(a_limit(id=1), a_limit(id=2, scope=Scope.KEY, value="k"))
    table.apply([LimitRow(a_limit(id=1), is_removed=True)])
    assert counted(table) == [(2, "k")]


def test_removing_what_was_never_known_changes_nothing() -> None:
    table = table_of(a_limit(id=1))
    table.apply([LimitRow(a_limit(id=9), is_removed=True)])
    assert counted(table) == [(1, "")]


def test_removing_one_keys_limit_keeps_another_keys() -> None:
    one = a_limit(id=1, scope=Scope.KEY, value="k")
    table = table_of(one, a_limit(id=2, scope=Scope.KEY, value="other"))
    table.apply([LimitRow(one, is_removed=True)])
    assert counted(table) == []
    assert counted(table, key=KeyId("other")) == [(2, "other")]


def test_what_is_kept_for_a_caller_heeds_every_change() -> None:
    table = table_of(a_limit(id=1))
    labels = {"workflow": "w", "session": "s"}
    assert counted(table, **labels) == [(1, "")]
    (kept,) = table.counting(a_request(**labels))
    assert table.counting(a_request(session="another")) == (kept,)
    for id, scope in enumerate((Scope.WORKFLOW, Scope.SESSION), 2):
        table.apply([LimitRow(a_limit(id=id, scope=scope, value="*"), is_removed=False)])
    assert counted(table, **labels) == [(1, ""), (2, "w"), (3, "s")]
    table.apply([LimitRow(a_limit(id=2, scope=Scope.WORKFLOW, value="*"), is_removed=True)])
    assert counted(table, **labels) == [(1, ""), (3, "s")]


def test_callers_are_told_apart_by_each_label_that_counts() -> None:
    every = [
        a_limit(id=id, scope=scope, value="*")
        for id, scope in enumerate((Scope.KEY, Scope.WORKFLOW, Scope.SESSION), 1)
    ]
    table = table_of(*every)
    for caller in (("k", "w", "s"), ("l", "w", "s"), ("k", "v", "s"), ("k", "w", "t")):
        key, workflow, session = caller
        found = counted(table, key=KeyId(key), workflow=workflow, session=session)
        assert found == list(enumerate(caller, 1))


def test_no_more_is_kept_of_callers_than_is_bounded() -> None:
    labelled = a_limit(id=2, scope=Scope.SESSION, value="*")
    for table, most in ((table_of(a_limit()), 1), (table_of(labelled), CALLERS_MAX)):
        for number in range(CALLERS_MAX + 10):
            table.counting(a_request(session=f"s{number}"))
            assert len(table._known) <= most


def test_refused_request_counts_for_limits_on_requests_of_its_account_and_key() -> None:
    requests = Measure.REQUESTS
    table = table_of(
        a_limit(id=1, measure=requests),
        a_limit(id=2, measure=Measure.TOKENS),
        a_limit(id=3, scope=Scope.KEY, value="*", measure=requests),
        a_limit(id=4, scope=Scope.KEY, value="k", measure=requests),
        a_limit(id=5, scope=Scope.KEY, value="other", measure=requests),
        a_limit(id=6, scope=Scope.SESSION, value="*", measure=requests),
    )
    account = a_request().account
    found = [(each.limit.id, each.value) for each in table.counting_refused(account, "k")]
    assert found == [(1, ""), (3, "k"), (4, "k")]
    assert table.counting_refused(AccountId("b" * 32), "k") == []


OWNED = a_limit(id=1, account="", scope=Scope.WORKFLOW, value="review", contract="review")
OF_SESSIONS = a_limit(id=2, account="", scope=Scope.SESSION, value="*", contract="review")


def test_limits_of_a_contract_count_what_it_decides_for_each_account_by_itself() -> None:
    table = table_of(OWNED)
    account = a_request().account
    # The version does not matter, nor how the request calls its workflow.
    assert counted(table, contract="review@3") == [(1, f"{account}/review")]
    assert counted(table, contract="review@4", workflow="other") == [(1, f"{account}/review")]
    assert counted(table, contract="review@3", account=AccountId("b")) == [(1, "b/review")]
    assert counted(table, workflow="review") == []
    assert counted(table, contract="reviews@3") == []


def test_limits_of_a_contract_count_beside_those_of_the_account() -> None:
    table = table_of(OWNED, OF_SESSIONS, a_limit(id=3))
    account = a_request().account
    assert counted(table, contract="review@1") == [(3, ""), (1, f"{account}/review")]
    both = counted(table, contract="review@1", session="s")
    assert both == [(3, ""), (1, f"{account}/review"), (2, f"{account}/s")]
    assert counted(table) == [(3, "")]


def test_a_limit_that_a_contract_gives_up_counts_no_more() -> None:
    table = table_of(OWNED, OF_SESSIONS)
    table.apply([LimitRow(OWNED, is_removed=True)])
    assert counted(table, contract="review@1", session="s") == [(2, f"{a_request().account}/s")]
    table.apply([LimitRow(OF_SESSIONS, is_removed=True)])
    assert counted(table, contract="review@1", session="s") == []
    assert len(table) == 0
