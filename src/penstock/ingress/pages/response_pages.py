"""`/v1/responses/{id}`: responses that are stored. Each account sees its own only."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.errors import Forbidden, InvalidRequest, NotFound
from penstock.ingress.pages.file_pages import account_of
from penstock.ingress.pages.item_lists import item_list, page_asked
from penstock.ingress.pages.json_pages import json_response
from penstock.intake.request_reader import RequestReader
from penstock.records.account import AccountId
from penstock.sessions import ResponseBook, ResponseId
from penstock.sessions.response_ids import read_response_id
from penstock.wire.resources.responses import ResponseDeleted


class ResponsePages:
    """Shows and deletes stored responses of the key's account."""

    def __init__(self, reader: RequestReader, book: ResponseBook) -> None:
        self._reader = reader
        self._book = book

    def routes(self, base: str) -> list[Route]:
        """Return the routes under `base`, which is `/v1` or an account's `/ai/v1`."""
        one = f"{base}/responses/{{id}}"
        return [
            Route(one, self.show),
            Route(one, self.delete, methods=["DELETE"]),
            Route(f"{one}/input_items", self.input_items),
        ]

    async def show(self, request: Request) -> Response:
        account, id = await self._asked(request)
        return json_response((await self._book.find(account, id)).response)

    async def delete(self, request: Request) -> Response:
        account, id = await self._asked(request)
        await self._book.delete(account, id)
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
        if request.path_params.get("account_id", account) != account:
            raise Forbidden("The account in the path is not this key's account.")
        id = read_response_id(request.path_params["id"])
        if id is None:
            raise NotFound("There is no such response.")
        return account, id
