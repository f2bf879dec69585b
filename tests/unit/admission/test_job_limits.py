"""Which limits count a job: the same that would count the request that it is."""

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.engine.engine_line import make_request

from penstock.admission import NO_HOLD, NoLimits, limits_counting
from penstock.admission.limit_table import LimitRow, LimitTable
from penstock.records.account import AccountId, KeyId
from penstock.records.job import Ticket
from penstock.records.limit import Limit, Measure, Period, Scope

ACCOUNT = AccountId("acme")
LABELS = st.sampled_from(["", "a", "b", "*", "ü\0x", "üx"])


@st.composite
def limits(draw: st.DrawFn) -> Limit:
    scope = draw(st.sampled_from(Scope))
    value = "" if scope is Scope.ACCOUNT else draw(LABELS.filter(bool))
    period = draw(st.sampled_from(Period))
    return Limit(draw(st.integers(1, 99)), ACCOUNT, scope, value, Measure.NANOUSD, period, 10)


@given(
    st.lists(limits(), unique_by=lambda limit: limit.id, max_size=8),
    LABELS.filter(bool),
    LABELS,
    LABELS,
)
def test_job_counts_for_the_limits_that_its_request_would(
    known: list[Limit], key: str, workflow: str, session: str
) -> None:
    table = LimitTable()
    table.apply(LimitRow(limit, is_removed=False) for limit in known)
    request = make_request(account=ACCOUNT, key=KeyId(key), workflow=workflow, session=session)
    expected = {each.limit.id for each in table.counting(request)}
    ticket = Ticket(workflow=workflow, session=session)
    assert set(limits_counting(known, KeyId(key), ticket)) == expected


async def test_no_limits_hold_nothing() -> None:
    request = make_request()
    assert NoLimits().reserve(request) is NO_HOLD
    assert await NoLimits().lease(request) is NO_HOLD
