"""Reports of usage for people, who name accounts by their names or not at all."""

from collections.abc import Mapping

import msgspec

from penstock.cli.account_names import account_names, find_account
from penstock.cli.exit_codes import CommandFailed, ExitCode
from penstock.errors import NotFound
from penstock.metering.reports.usage_reports import UsageReports
from penstock.metering.settings import MeteringSettings
from penstock.policy import AccountBook
from penstock.store import Store
from penstock.wire.resources.usage import SessionAnswer, UsageAnswer
from penstock.wire.resources.usage_query import Label, ReportPeriod, SessionQuery, UsageQuery


class UsageDesk:
    """The reports of an open store, with accounts found by name."""

    def __init__(self, store: Store, settings: MeteringSettings) -> None:
        self._store = store
        self.reports = UsageReports(store, settings)

    async def usage(
        self, query: UsageQuery, account: str | None
    ) -> tuple[UsageAnswer, Mapping[str, str]]:
        """Return sums of one account or of all, and the names of accounts."""
        if account is not None:
            owner = await find_account(self._store, account)
            filters = {**query.filters, Label.ACCOUNT: owner}
            query = msgspec.structs.replace(query, filters=filters)
        return await self.reports.usage(query), await account_names(self._store)

    async def session(self, query: SessionQuery) -> SessionAnswer:
        """Return a session's turns; of the only account that has it if the query names none."""
        if query.account:
            owner = str(await find_account(self._store, query.account))
        else:
            owner = await self._owner(query)
        return await self.reports.session(msgspec.structs.replace(query, account=owner))

    async def _owner(self, query: SessionQuery) -> str:
        known: dict[str, str] = {
            each.id: each.name for each in await AccountBook(self._store).list()
        }
        period = ReportPeriod(since=query.since, until=query.until)
        found = await self.reports.accounts_of_session(query.session, period, list(known))
        if not found:
            raise NotFound("There are no turns of that session in that period.")
        if len(found) > 1:
            named = ", ".join(f"{known[id]} ({id})" for id in found)
            raise CommandFailed(
                f"Several accounts have a session {query.session}: {named}. Name one with"
                " --account.",
                ExitCode.USAGE,
            )
        return found[0]
