"""`/v1/responses/{id}`: responses that are stored. Each account sees its own only."""

from typing import Final

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.errors import InvalidRequest, NotFound
from penstock.ingress.jobs.background_endpoint import BackgroundEndpoint
from penstock.ingress.pages.file_pages import account_of
from penstock.ingress.pages.item_lists import item_list, page_asked
from penstock.ingress.pages.json_pages import json_response
from penstock.ingress.pages.streamed_page import StreamedPage
from penstock.intake.caller_headers import TRUE
from penstock.intake.request_reader import RequestReader
from penstock.records.account import AccountId
from penstock.sessions import ResponseBook, ResponseId
from penstock.sessions.response_ids import read_response_id
from penstock.wire.apis.server_calls import CODE_OUTPUTS, public_response
from penstock.wire.resources.responses import ResponseDeleted

_DIGITS_MAX: Final = 9


class ResponsePages:
    """Shows and deletes stored responses of the key's account."""

    def __init__(
        self, reader: RequestReader, book: ResponseBook, background: BackgroundEndpoint
    ) -> None:
        self._reader = reader
        self._book = book
        self._background = background

    def routes(self, base: str) -> list[Route]:
        """Return the routes under `base`, which is `/v1` or an account's `/ai/v1`."""
        one = f"{base}/responses/{{id}}"
        return [
            Route(one, self.show),
            Route(one, self.delete, methods=["DELETE"]),
            Route(f"{one}/cancel", self.cancel, methods=["POST"]),
            Route(f"{one}/input_items", self.input_items),
        ]

    async def show(self, request: Request) -> Response:
        """Show a response, or stream its events: those after number `starting_after`."""
        account, id = await self._asked(request)
        query = request.query_params
        if query.get("stream", "").lower() not in TRUE:
            has_outputs = CODE_OUTPUTS in _included(query)
            found = await self._background.find(account, id)
            return json_response(public_response(found, has_outputs=has_outputs))
        if not (await self._book.find(account, id)).is_background:
            raise InvalidRequest(
                "Only a background response can be streamed again.", param="stream"
            )
        after = _place(query.get("starting_after"))
        return StreamedPage(self._background.follow(account, id, after))

    async def cancel(self, request: Request) -> Response:
        account, id = await self._asked(request)
        return json_response(await self._background.cancel(account, id))

    async def delete(self, request: Request) -> Response:
        account, id = await self._asked(request)
        await self._background.delete(account, id)
        shown = request.path_params["id"]
        return json_response(ResponseDeleted(shown))

    async def input_items(self, request: Request) -> Response:
        """List the items that the response's own request sent, the last first."""
        account, id = await self._asked(request)
        asked = page_asked(request.query_params)
        items = (await self._book.find(account, id)).input
        listed = items if asked.is_oldest_first else items[::-1]
        if asked.after:
            places = [place for place, item in enumerate(listed) if item["id"] == asked.after]
            if not places:
                raise InvalidRequest("`after` names no item of this list.", param="after")
            listed = listed[places[0] + 1 :]
        page, has_more = listed[: asked.limit], len(listed) > asked.limit
        return json_response(item_list(page, has_more=has_more))

    async def _asked(self, request: Request) -> tuple[AccountId, ResponseId]:
        """Return whose response is asked for; an id that cannot be ours is as unknown as others."""
        account = (await account_of(self._reader, request)).id
        id = read_response_id(request.path_params["id"])
        if id is None:
            raise NotFound("There is no such response.")
        return account, id


def _included(query: QueryParams) -> set[str]:
    """Return what `include` asks for; SDKs write lists as `include[]`."""
    asked = [*query.getlist("include"), *query.getlist("include[]")]
    return {name for each in asked for name in each.split(",")}


def _place(text: str | None) -> int:
    """Return the number of the last event that the caller has; -1 if it has none."""
    if not text:
        return -1
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX):
        raise InvalidRequest(
            "`starting_after` is the `sequence_number` of an event.", param="starting_after"
        )
    return int(text)
