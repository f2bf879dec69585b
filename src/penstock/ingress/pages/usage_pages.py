"""`/v1/usage`: usage and its cost. A runtime key sees its own account, operators see all."""

from starlette.requests import Request
from starlette.responses import Response

from penstock.clock import Clock
from penstock.errors import AccountBlocked, Forbidden
from penstock.ingress.pages.json_pages import json_response
from penstock.intake.caller_headers import CallerHeaders
from penstock.intake.request_reader import RequestReader
from penstock.metering.reports.usage_reports import UsageReports
from penstock.wire.resources.usage_query import (
    Label,
    read_parameters,
    read_session_query,
    read_usage_query,
)


class UsagePages:
    """Reads usage queries, restricts them to the key's account, and returns the reports."""

    def __init__(self, reader: RequestReader, reports: UsageReports, clock: Clock) -> None:
        self._reader = reader
        self._reports = reports
        self._now = clock.now

    async def usage(self, request: Request) -> Response:
        asked = await asked_of_account(self._reader, request)
        return json_response(await self._reports.usage(read_usage_query(asked, self._now())))

    async def session(self, request: Request) -> Response:
        account = await account_of(self._reader, request)
        name = request.path_params["session"]
        query = read_session_query(_asked(request), name, self._now(), account=account)
        return json_response(await self._reports.session(query))

    async def request(self, request: Request) -> Response:
        account = await account_of(self._reader, request)
        read_parameters(_asked(request), ())
        found = await self._reports.request(request.path_params["id"], account=account)
        return json_response(found)


async def account_of(reader: RequestReader, request: Request) -> str | None:
    """Return the only account that a key may see; None for an operator's, which sees all."""
    key = await reader.authenticate(CallerHeaders(request.scope["headers"]))
    if key.account is None:
        return None
    if key.account.is_blocked:
        raise AccountBlocked
    own = key.account.id
    if any(name == Label.ACCOUNT and value != own for name, value in _asked(request)):
        raise Forbidden("This key sees its own account's rows only.")
    return own


async def asked_of_account(reader: RequestReader, request: Request) -> list[tuple[str, str]]:
    """Return a query's parameters, restricted to the account that its key may see."""
    account = await account_of(reader, request)
    asked = _asked(request)
    if account is None:
        return asked
    return [*(each for each in asked if each[0] != Label.ACCOUNT), (Label.ACCOUNT, account)]


def _asked(request: Request) -> list[tuple[str, str]]:
    return list(request.query_params.multi_items())
