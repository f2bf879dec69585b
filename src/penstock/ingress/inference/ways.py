"""Where an inference request may go: to an engine now, or into the queue."""

from typing import NamedTuple, Protocol

import msgspec

from penstock.ingress.http.exchange import Exchange
from penstock.ingress.inference.client_writer import ClientWriter
from penstock.ingress.inference.stored_way import StoredWay
from penstock.intake.caller_headers import CallerHeaders
from penstock.intake.opened_request import OpenedRequest
from penstock.records.request import InferenceRequest, RequestId
from penstock.records.usage import Usage
from penstock.serving.budget_fallback import BudgetFallback
from penstock.serving.request_path import RequestPath
from penstock.turns import StoredTurn


class FlexCaller(msgspec.Struct):
    """The caller of a flex request, and the means to answer it."""

    opened: OpenedRequest
    headers: CallerHeaders
    exchange: Exchange
    writer: ClientWriter


class FlexWay(Protocol):
    """Submits a request as one job and answers its caller."""

    async def in_place(self, request: InferenceRequest, caller: FlexCaller) -> Usage | None: ...

    async def prefer(self, request: InferenceRequest, caller: FlexCaller) -> None: ...


class QueueWay(Protocol):
    """Takes Workers AI's `queueRequest` submissions and polls; returns the answer's body."""

    async def serve(
        self, request_id: RequestId, opened: OpenedRequest, headers: CallerHeaders
    ) -> bytes: ...


class BackgroundWay(Protocol):
    """Queues a stored response as a job, and answers its caller."""

    async def submit(
        self, turn: StoredTurn, request: InferenceRequest, exchange: Exchange, headers: bytes
    ) -> None: ...


class Ways(NamedTuple):
    """`now` runs a request at once, `stored` with its state; the others make jobs of it.

    `fallback` reserves the money of requests that a cheaper model may serve.
    """

    now: RequestPath
    fallback: BudgetFallback
    stored: StoredWay
    flex: FlexWay
    queue: QueueWay
    background: BackgroundWay
