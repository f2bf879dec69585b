"""Workers AI's event subscriptions: one model's batches, sent to the account's own webhook."""

from datetime import UTC, datetime
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.errors import EngineFailed
from penstock.events import Endpoint, EndpointBook, EndpointChange, NewEndpoint, Shape
from penstock.events.signatures import shown
from penstock.ingress.error_response import WORKERS_AI
from penstock.ingress.pages.json_pages import json_response
from penstock.ingress.pages.page_body import read_struct
from penstock.ingress.pages.webhook_pages import given, own_account, whole_number
from penstock.intake.request_reader import RequestReader
from penstock.wire.resources.webhooks import (
    CreateSubscription,
    ModelSource,
    Subscription,
    UpdateSubscription,
    WebhookDestination,
)

_PATH: Final = "/client/v4/accounts/{account_id}/event_subscriptions/subscriptions"
_WORKERS_AI: Final = Shape.WORKERS_AI


class SubscriptionPages:
    """Creates, lists, shows, updates and deletes subscriptions of the key's account."""

    def __init__(self, reader: RequestReader, book: EndpointBook) -> None:
        self._reader = reader
        self._book = book

    def routes(self) -> list[Route]:
        one = f"{_PATH}/{{id}}"
        return [
            Route(_PATH, self.create, methods=["POST"]),
            Route(_PATH, self.list),
            Route(one, self.show),
            Route(one, self.update, methods=["PATCH"]),
            Route(one, self.delete, methods=["DELETE"]),
        ]

    async def create(self, request: Request) -> Response:
        account = await own_account(self._reader, request)
        asked = await read_struct(request, CreateSubscription)
        created = await self._book.create(
            NewEndpoint(
                account,
                _WORKERS_AI,
                asked.name,
                asked.destination.url,
                tuple(dict.fromkeys(asked.events)),
                model=asked.source.model_name,
                is_enabled=asked.enabled,
            )
        )
        secret = shown(created.secrets[0])
        return _enveloped(msgspec.structs.replace(_answer(created), signing_secret=secret))

    async def list(self, request: Request) -> Response:
        account = await own_account(self._reader, request)
        page = whole_number(request, "page", default=1, most=1000)
        per_page = whole_number(request, "per_page", default=20, most=1000)
        found = [_answer(each) for each in await self._book.list(account, _WORKERS_AI)]
        shown_here = found[(page - 1) * per_page : page * per_page]
        info = {
            "page": page,
            "per_page": per_page,
            "count": len(shown_here),
            "total_count": len(found),
        }
        return _enveloped(shown_here, result_info=info)

    async def show(self, request: Request) -> Response:
        account = await own_account(self._reader, request)
        found = await self._book.find(account, _WORKERS_AI, request.path_params["id"])
        return _enveloped(_answer(found))

    async def update(self, request: Request) -> Response:
        account = await own_account(self._reader, request)
        asked = await read_struct(request, UpdateSubscription)
        events, destination = given(asked.events), given(asked.destination)
        change = EndpointChange(
            name=given(asked.name),
            url=None if destination is None else destination.url,
            events=None if events is None else tuple(dict.fromkeys(events)),
            is_enabled=given(asked.enabled),
        )
        subscription_id = request.path_params["id"]
        changed = await self._book.change(account, _WORKERS_AI, subscription_id, change)
        return _enveloped(_answer(changed))

    async def delete(self, request: Request) -> Response:
        account = await own_account(self._reader, request)
        deleted = await self._book.delete(account, _WORKERS_AI, request.path_params["id"])
        return _enveloped(_answer(deleted))


def _answer(endpoint: Endpoint) -> Subscription:
    return Subscription(
        id=endpoint.public_id,
        name=endpoint.name,
        enabled=endpoint.is_enabled,
        events=list(endpoint.events),
        source=ModelSource("workersAi.model", endpoint.model),
        destination=WebhookDestination("webhook", endpoint.url),
        created_at=datetime.fromtimestamp(endpoint.created_at, UTC),
        modified_at=datetime.fromtimestamp(endpoint.modified_at, UTC),
    )


def _enveloped(result: object, **more: object) -> Response:
    return json_response({"result": result, "success": True, "errors": [], "messages": [], **more})


def failure_numbers(code: str) -> tuple[int, int]:
    """Return the status and number of an error's code, for events of failed batches."""
    rows = (row for kind, row in WORKERS_AI.items() if kind.code == code)
    return next(rows, WORKERS_AI[EngineFailed])
