"""`/v1/webhook_endpoints`, as openai's SDK calls it. Each account sees its own only."""

from typing import Final, TypeVar

import msgspec
from msgspec import UNSET, UnsetType
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.clock import Clock, new_id
from penstock.errors import (
    AccountBlocked,
    Forbidden,
    InvalidRequest,
    MissingBody,
    NotFound,
    Overloaded,
)
from penstock.events import (
    Endpoint,
    EndpointBook,
    EndpointChange,
    Event,
    NewEndpoint,
    Shape,
    WebhookSettings,
    openai_body,
)
from penstock.events.event import OPENAI_TYPES
from penstock.events.signatures import hint, shown, signed_headers
from penstock.ingress.pages.json_pages import json_response
from penstock.ingress.pages.page_body import read_struct
from penstock.intake.caller_headers import CallerHeaders
from penstock.intake.request_reader import RequestReader
from penstock.outbound import Sender
from penstock.records.account import AccountId
from penstock.wire.resources.webhooks import (
    CreateWebhookEndpoint,
    KnownEvents,
    RotateSecret,
    TestWebhookEndpoint,
    UpdateWebhookEndpoint,
    WebhookEndpoint,
    WebhookEndpointDeleted,
    WebhookEndpointList,
    WebhookEndpointTested,
)

_PATH: Final = "/v1/webhook_endpoints"
_PAGE: Final = 20
_PAGE_MAX: Final = 100
_OPENAI: Final = Shape.OPENAI
T = TypeVar("T")


class WebhookPages:
    """Manages and tests the webhook endpoints of the key's account."""

    def __init__(
        self,
        reader: RequestReader,
        book: EndpointBook,
        sender: Sender,
        settings: WebhookSettings,
        clock: Clock,
    ) -> None:
        self._reader = reader
        self._book = book
        self._sender = sender
        self._tests_max = settings.tests_at_once_max
        self._tests = 0
        self._now = clock.now

    def routes(self) -> list[Route]:
        one = f"{_PATH}/{{id}}"
        return [
            Route(_PATH, self.create, methods=["POST"]),
            Route(_PATH, self.list),
            Route(one, self.show),
            Route(one, self.update, methods=["POST"]),
            Route(one, self.delete, methods=["DELETE"]),
            Route(f"{one}/test", self.test, methods=["POST"]),
            Route(f"{one}/rotate_secret", self.rotate, methods=["POST"]),
            Route("/v1/webhook_event_types", self.event_types),
        ]

    async def create(self, request: Request) -> Response:
        account = await own_account(self._reader, request)
        asked = await read_struct(request, CreateWebhookEndpoint)
        events = tuple(dict.fromkeys(asked.event_types))
        wanted = NewEndpoint(account, _OPENAI, asked.name, asked.url, events)
        return json_response(_with_secret(await self._book.create(wanted)))

    async def list(self, request: Request) -> Response:
        account = await own_account(self._reader, request)
        limit = whole_number(request, "limit", default=_PAGE, most=_PAGE_MAX)
        found = [_answer(each) for each in await self._book.list(account, _OPENAI)]
        after = request.query_params.get("after")
        if after is not None:
            ids = [each.id for each in found]
            if after not in ids:
                raise NotFound("There is no such webhook endpoint to begin after.")
            found = found[ids.index(after) + 1 :]
        page = found[:limit]
        return json_response(
            WebhookEndpointList(
                data=page,
                first_id=page[0].id if page else None,
                last_id=page[-1].id if page else None,
                has_more=len(found) > limit,
            )
        )

    async def show(self, request: Request) -> Response:
        return json_response(_answer(await self._find(request)))

    async def update(self, request: Request) -> Response:
        account = await own_account(self._reader, request)
        asked = await read_struct(request, UpdateWebhookEndpoint)
        types = given(asked.event_types)
        change = EndpointChange(
            name=given(asked.name),
            url=given(asked.url),
            events=None if types is None else tuple(dict.fromkeys(types)),
            is_enabled=given(asked.enabled),
        )
        endpoint_id = request.path_params["id"]
        return json_response(
            _answer(await self._book.change(account, _OPENAI, endpoint_id, change))
        )

    async def delete(self, request: Request) -> Response:
        account = await own_account(self._reader, request)
        deleted = await self._book.delete(account, _OPENAI, request.path_params["id"])
        return json_response(WebhookEndpointDeleted(id=deleted.public_id))

    async def rotate(self, request: Request) -> Response:
        account = await own_account(self._reader, request)
        try:
            asked = await read_struct(request, RotateSecret)
        except MissingBody:
            asked = RotateSecret()
        rotated = await self._book.rotate(
            account,
            _OPENAI,
            request.path_params["id"],
            keeps_old=asked.keep_old_secret_active_for_24_hours,
        )
        return json_response(_with_secret(rotated))

    async def test(self, request: Request) -> Response:
        """Send a made-up event once, and answer with the endpoint's status."""
        endpoint = await self._find(request)
        asked = await read_struct(request, TestWebhookEndpoint)
        event = self._example(endpoint.account, asked.event_type)
        body = openai_body(event)
        headers = signed_headers(event.public_id, body, endpoint.secrets, self._now())
        if self._tests >= self._tests_max:
            raise Overloaded("Too many webhook endpoints are being tested.", retry_after_seconds=5)
        self._tests += 1
        try:
            sent = await self._sender.post(endpoint.account, endpoint.url, headers, body)
        finally:
            self._tests -= 1
        if sent.status is None:
            raise InvalidRequest(f"The endpoint could not be tested: {sent.problem}.", param="url")
        return json_response(
            WebhookEndpointTested(
                webhook_endpoint_id=endpoint.public_id,
                event_type=asked.event_type,
                status_code=sent.status,
            )
        )

    async def event_types(self, request: Request) -> Response:
        await own_account(self._reader, request)
        return json_response(KnownEvents(list(OPENAI_TYPES)))

    async def _find(self, request: Request) -> Endpoint:
        account = await own_account(self._reader, request)
        return await self._book.find(account, _OPENAI, request.path_params["id"])

    def _example(self, account: AccountId, kind: str) -> Event:
        # Of a batch, a response or a job, as the event's type says.
        subject = {"batch": "batch_test", "response": "resp_test"}.get(kind.partition(".")[0])
        return Event(new_id(), account, kind, self._now(), {"id": subject or "job_test"})


async def own_account(reader: RequestReader, request: Request) -> AccountId:
    """Return the account of the caller's key, which must match the path's, if it names one."""
    key = await reader.authenticate(CallerHeaders(request.scope["headers"]))
    if key.account is None:
        raise Forbidden("An operator's key has no webhooks: use an account's own.")
    if request.path_params.get("account_id", key.account.id) != key.account.id:
        raise Forbidden("The account in the path is not this key's.")
    if key.account.is_blocked:
        raise AccountBlocked
    return key.account.id


def given(value: T | UnsetType) -> T | None:
    return None if value is UNSET else value


def _answer(endpoint: Endpoint) -> WebhookEndpoint:
    return WebhookEndpoint(
        id=endpoint.public_id,
        name=endpoint.name,
        url=endpoint.url,
        event_types=list(endpoint.events),
        enabled=endpoint.is_enabled,
        disabled_reason=endpoint.disabled_reason or None,
        created_at=int(endpoint.created_at),
        updated_at=int(endpoint.modified_at),
        signing_secret_hint=hint(endpoint.secrets[0]),
    )


def _with_secret(endpoint: Endpoint) -> WebhookEndpoint:
    secret = shown(endpoint.secrets[0])
    return msgspec.structs.replace(_answer(endpoint), signing_secret=secret)


def whole_number(request: Request, name: str, *, default: int, most: int) -> int:
    """Return a query parameter from 1 to `most`."""
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 7 and 1 <= int(text) <= most):
        raise InvalidRequest(f"`{name}` must be a whole number from 1 to {most}.", param=name)
    return int(text)
