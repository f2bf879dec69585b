"""Finds accounts by name or id, and shows them by name."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Final

from penstock.cli.exit_codes import CommandFailed, ExitCode
from penstock.errors import NotFound
from penstock.policy import AccountBook
from penstock.records.account import AccountId
from penstock.store import Store

_ID: Final = re.compile(r"[0-9a-f]{32}")


async def find_account(store: Store, given: str) -> AccountId:
    """Return the id of the account that is called `given`; an id is returned as it is."""
    if _ID.fullmatch(given):
        return AccountId(given)
    found = await AccountBook(store).named(given)
    if not found:
        raise NotFound(f"There is no account {given}. `penstock account list` shows them.")
    if len(found) > 1:
        ids = ", ".join(each.id for each in found)
        raise CommandFailed(
            f"Several accounts are called {given}. Name one by its id: {ids}.", ExitCode.USAGE
        )
    return found[0].id


async def find_account_if_given(store: Store, given: str | None) -> AccountId | None:
    return None if given is None else await find_account(store, given)


async def account_names(store: Store) -> Mapping[str, str]:
    """Return the names that belong to one account only, by the account's id."""
    accounts = await AccountBook(store).list()
    count = Counter(each.name for each in accounts)
    return {each.id: each.name for each in accounts if count[each.name] == 1}
