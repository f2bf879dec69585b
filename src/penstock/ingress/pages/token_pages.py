"""How many tokens a prompt has, as an engine counts them, for Messages and Responses.

Agents such as Claude Code ask before they send, to know when a conversation must be compacted. The
request is read as inference reads it, asks one replica, and costs nothing.
"""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from penstock.clock import new_id
from penstock.errors import MissingCapability
from penstock.ingress.pages.json_pages import json_response
from penstock.ingress.pages.page_body import BodySlots
from penstock.intake.caller_headers import CallerHeaders
from penstock.intake.request_reader import RequestReader
from penstock.intake.routes import RequestRoute, Surface, Wanted
from penstock.records.request import Api, InferenceRequest, RequestId
from penstock.serving.token_counting import TokenCounter
from penstock.turns import StoredTurns

AT_ONCE_MAX: Final = 8
AT_ONCE_PER_ACCOUNT_MAX: Final = 2
_MESSAGES: Final = RequestRoute(Surface.OPENAI, Api.MESSAGES, wanted=Wanted.COUNT)
_RESPONSES: Final = RequestRoute(Surface.OPENAI, Api.RESPONSES, wanted=Wanted.COUNT)


class TokenPages:
    """Counts for runtime keys."""

    def __init__(self, reader: RequestReader, counter: TokenCounter, turns: StoredTurns) -> None:
        self._reader = reader
        self._turns = turns
        self._counter = counter
        self._slots = BodySlots("counts", AT_ONCE_MAX, AT_ONCE_PER_ACCOUNT_MAX)

    async def count_messages(self, request: Request) -> Response:
        """`POST /v1/messages/count_tokens`; an estimate if the engine cannot count."""
        asked, count = await self._count(request, _MESSAGES)
        return json_response({"input_tokens": count or asked.terms.prompt_tokens_estimate})

    async def count_responses(self, request: Request) -> Response:
        """`POST /v1/responses/input_tokens`."""
        asked, count = await self._count(request, _RESPONSES)
        if count is None:
            raise MissingCapability(
                f"The engine of {asked.model.id} cannot count tokens.", param="model"
            )
        return json_response({"object": "response.input_tokens", "input_tokens": count})

    async def _count(
        self, request: Request, route: RequestRoute
    ) -> tuple[InferenceRequest, int | None]:
        headers = CallerHeaders(request.scope["headers"])
        key = await self._reader.authenticate(headers)
        request_id = RequestId(new_id())
        # Held until the engine has counted: that takes it as long as reading a prompt takes.
        async with self._slots.held(key):
            body = await self._slots.gather(request)
            opened = await self._reader.read_by_size(
                len(body),
                lambda reader: reader.open(route, headers, key, body),
                route.inline_bytes_max,
            )
            if opened.state is not None:
                opened = (await self._turns.begin(request_id, opened)).opened
            asked = await self._reader.read_by_size(
                len(body),
                lambda reader: reader.read_prompt(request_id, headers, opened),
                route.inline_bytes_max,
            )
            return asked, await self._counter.count(asked)
