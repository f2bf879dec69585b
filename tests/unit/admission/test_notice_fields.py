"""What an account is told of a limit that a contract owns."""

import pytest

from penstock.admission.limit_notices import notice_of
from penstock.admission.window_balance import WindowBalance
from penstock.admission.windows import Window
from penstock.records.account import AccountId
from penstock.records.limit import Limit, Measure, Period, Scope


@pytest.mark.parametrize(
    ("scope", "value", "named"),
    [(Scope.WORKFLOW, "team-a/", ""), (Scope.SESSION, "team-a/one/two", "one/two")],
)
def test_a_contracts_limit_is_told_to_the_account_that_it_counts(
    scope: Scope, value: str, named: str
) -> None:
    limit = Limit(
        3, AccountId(""), scope, "*", Measure.NANOUSD, Period.MONTH, 50, contract="code-review"
    )
    told = notice_of(WindowBalance(limit, value, Window(0, 86_400)), 50, "limit.reached")
    assert (told.account, told.data["value"]) == ("team-a", named)
    assert (told.data["contract"], told.data["resets_at"]) == ("code-review", 86_400)
