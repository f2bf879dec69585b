"""Screen 8: accounts, their keys and their limits."""

from typing import Final

from penstock.console.account_operations import LIST_ACCOUNTS
from penstock.console.formats import short
from penstock.console.key_operations import LIST_KEYS, KeysAsked
from penstock.console.limit_operations import LIST_LIMITS, LimitsAsked
from penstock.console.operation import Nothing
from penstock.console.screens.figures import dollars
from penstock.console.screens.page import Context, PageRequest
from penstock.records.limit import Measure, Period, Scope

_KEYS_MAX: Final = 500


async def read_accounts(page: PageRequest) -> Context:
    """Read all accounts; of the chosen one its keys and limits."""
    chosen = page.view.account
    accounts = await page.read(LIST_ACCOUNTS, Nothing())
    keys = await page.read(LIST_KEYS, KeysAsked(account=chosen))
    limits = await page.read(LIST_LIMITS, LimitsAsked(account=chosen))
    return {
        "accounts": accounts.accounts,
        "chosen": next(
            (each for each in accounts.accounts if chosen in (each.id, each.name)), None
        ),
        "keys": [each for each in keys.keys if not each.is_revoked][:_KEYS_MAX],
        "limits": limits.limits,
        "names": limits.account_names,
        "amount": _amount,
        "measures": [str(each) for each in Measure],
        "periods_of_limits": [str(each) for each in Period],
        "scopes": [str(each) for each in Scope],
    }


def _amount(measure: Measure, amount: int) -> str:
    return dollars(amount) if measure is Measure.NANOUSD else short(amount)
