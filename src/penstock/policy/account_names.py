"""Finds accounts by name or id, and returns their names."""

import re
from collections import Counter
from typing import Final

from penstock.errors import InvalidRequest, NotFound
from penstock.policy.accounts import AccountBook
from penstock.records.account import AccountId

_ID: Final = re.compile(r"[0-9a-f]{32}")


async def find_account(accounts: AccountBook, given: str) -> AccountId:
    """Return the id of the account that is called `given`; an id is returned as it is."""
    if _ID.fullmatch(given):
        return AccountId(given)
    found = await accounts.named(given)
    if not found:
        raise NotFound(f"There is no account {given}. `penstock account list` shows them.")
    if len(found) > 1:
        ids = ", ".join(each.id for each in found)
        raise InvalidRequest(
            f"Several accounts are called {given}. Name one by its id: {ids}.", param="account"
        )
    return found[0].id


async def find_account_if_given(accounts: AccountBook, given: str | None) -> AccountId | None:
    return None if given is None else await find_account(accounts, given)


async def account_names(accounts: AccountBook) -> dict[str, str]:
    """Return the names that belong to one account only, by the account's id."""
    known = await accounts.list()
    count = Counter(each.name for each in known)
    return {each.id: each.name for each in known if count[each.name] == 1}
