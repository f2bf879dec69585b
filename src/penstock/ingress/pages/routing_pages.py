"""`/v1/routing/explain`: where a chat request would go, and why. Reads it as inference does."""

from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from penstock.clock import Clock, new_id
from penstock.errors import Forbidden, InvalidRequest, NotFound
from penstock.ingress.pages.json_pages import json_response
from penstock.ingress.pages.page_body import BodySlots
from penstock.intake.caller_headers import CallerHeaders
from penstock.intake.request_reader import RequestReader
from penstock.intake.routes import RequestRoute, Surface
from penstock.records.account import Account, Key, Role
from penstock.records.request import RequestId
from penstock.serving.explanation import Explainer

FindAccount = Callable[[str], Awaitable[Account | None]]

AT_ONCE_MAX: Final = 2
_CHAT: Final = RequestRoute(Surface.OPENAI)


class RoutingPages:
    """Explains routes; a runtime key's own account's, in ratios, or one an operator names."""

    def __init__(
        self, reader: RequestReader, explainer: Explainer, find_account: FindAccount, clock: Clock
    ) -> None:
        self._reader = reader
        self._explainer = explainer
        self._find_account = find_account
        self._clock = clock
        self._slots = BodySlots("explanations", AT_ONCE_MAX, AT_ONCE_MAX)

    async def explain(self, request: Request) -> Response:
        headers = CallerHeaders(request.scope["headers"])
        caller = await self._reader.authenticate(headers)
        key = await self._as_runtime(caller, request.query_params.get("account"))
        async with self._slots.held(caller):
            body = await self._slots.gather(request)
        request_id = RequestId(new_id())
        chat = await self._reader.read_by_size(
            len(body),
            lambda reader: reader.read(request_id, _CHAT, headers, key, body),
        )
        is_absolute = caller.role is Role.OPERATOR
        now = self._clock.monotonic()
        return json_response(self._explainer.explain(chat, now, is_absolute=is_absolute))

    async def _as_runtime(self, key: Key, named: str | None) -> Key:
        if key.account is not None:
            if named not in (None, key.account.id):
                raise Forbidden("This key sees its own account's routing only.")
            return key
        if not named:
            raise InvalidRequest(
                "An operator key must say whose request it is: `?account=ID`.", param="account"
            )
        # Postgres takes no text that has a NUL in it.
        account = await self._find_account(named) if named.isprintable() else None
        if account is None:
            raise NotFound("There is no such account.")
        return msgspec.structs.replace(key, role=Role.RUNTIME, account=account)
