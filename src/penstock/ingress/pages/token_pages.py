"""`/v1/messages/count_tokens`: how many tokens a Messages prompt has, as the engine counts them.

Agents such as Claude Code ask before they send, to know when a conversation must be compacted. The
request is read as inference reads it, asks one replica, and costs nothing.
"""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from penstock.clock import new_id
from penstock.ingress.pages.json_pages import json_response
from penstock.ingress.pages.page_body import BodySlots
from penstock.intake.caller_headers import CallerHeaders
from penstock.intake.request_reader import RequestReader
from penstock.intake.routes import RequestRoute, Surface
from penstock.records.request import Api, RequestId
from penstock.serving.token_counting import TokenCounter

AT_ONCE_MAX: Final = 8
AT_ONCE_PER_ACCOUNT_MAX: Final = 2
_MESSAGES: Final = RequestRoute(Surface.OPENAI, Api.MESSAGES)


class TokenPages:
    """Counts for runtime keys."""

    def __init__(self, reader: RequestReader, counter: TokenCounter) -> None:
        self._reader = reader
        self._counter = counter
        self._slots = BodySlots("counts", AT_ONCE_MAX, AT_ONCE_PER_ACCOUNT_MAX)

    async def count(self, request: Request) -> Response:
        headers = CallerHeaders(request.scope["headers"])
        key = await self._reader.authenticate(headers)
        request_id = RequestId(new_id())
        # Held until the engine has counted: that takes it as long as reading a prompt takes.
        async with self._slots.held(key):
            body = await self._slots.gather(request)
            asked = await self._reader.read_by_size(
                len(body),
                lambda reader: reader.read(request_id, _MESSAGES, headers, key, body),
            )
            return json_response({"input_tokens": await self._counter.count(asked)})
