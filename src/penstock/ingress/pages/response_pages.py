"""`/v1/responses/{id}`: responses that are stored. Each account sees its own only."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.errors import Forbidden, InvalidRequest, NotFound
from penstock.ingress.pages.file_pages import account_of, page_limit
from penstock.ingress.pages.json_pages import json_response
from penstock.intake.request_reader import RequestReader
from penstock.records.account import AccountId
from penstock.sessions import ResponseBook, ResponseId
from penstock.sessions.response_ids import read_response_id
from penstock.wire.apis.response_items import Item
from penstock.wire.resources.responses import ItemList, ResponseDeleted

_LIST_DEFAULT: Final = 20
_LIST_MAX: Final = 100
_ORDERS: Final = ("asc", "desc")


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
        query = request.query_params
        limit = page_limit(query.get("limit"), _LIST_DEFAULT, _LIST_MAX)
        items = (await self._book.find(account, id)).input
        return json_response(item_page(items, limit, query.get("order"), query.get("after")))

    async def _asked(self, request: Request) -> tuple[AccountId, ResponseId]:
        """Return whose response is asked for; an id that cannot be ours is as unknown as others."""
        account = (await account_of(self._reader, request)).id
        if request.path_params.get("account_id", account) != account:
            raise Forbidden("The account in the path is not this key's account.")
        id = read_response_id(request.path_params["id"])
        if id is None:
            raise NotFound("There is no such response.")
        return account, id


def item_page(items: list[Item], limit: int, order: str | None, after: str | None) -> ItemList:
    """Return a page of items, as OpenAI lists them: the newest first unless `order` is `asc`."""
    if order not in (None, *_ORDERS):
        raise InvalidRequest("`order` is asc or desc.", param="order")
    listed = items if order == "asc" else items[::-1]
    if after:
        places = [place for place, item in enumerate(listed) if item.get("id") == after]
        if not places:
            raise InvalidRequest("`after` names no item of this list.", param="after")
        listed = listed[places[0] + 1 :]
    page = [shown_item(item) for item in listed[:limit]]
    return ItemList(
        data=page,
        first_id=page[0]["id"] if page else None,
        last_id=page[-1]["id"] if page else None,
        has_more=len(listed) > limit,
    )


def shown_item(item: Item) -> Item:
    """Return an item with what clients expect of every item, and requests may leave out."""
    if item.get("type", "message") != "message":
        return item
    content = item.get("content")
    if isinstance(content, str):
        kind = "output_text" if item.get("role") == "assistant" else "input_text"
        content = [{"type": kind, "text": content}]
    return {**item, "type": "message", "status": "completed", "content": content}
