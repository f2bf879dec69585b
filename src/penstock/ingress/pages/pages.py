"""Builds the Starlette application: all endpoints except inference."""

from collections.abc import Awaitable, Callable

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Lifespan

from penstock.errors import Error, MethodNotAllowed, NotFound
from penstock.ingress.inference.cors import EXPOSED_HEADERS
from penstock.ingress.pages.batch_pages import BatchPages
from penstock.ingress.pages.container_pages import ContainerPages
from penstock.ingress.pages.conversation_pages import ConversationPages
from penstock.ingress.pages.decision_pages import DecisionPages
from penstock.ingress.pages.event_pages import EventPages
from penstock.ingress.pages.file_pages import FilePages
from penstock.ingress.pages.front_page import FrontPage
from penstock.ingress.pages.health import HealthPages
from penstock.ingress.pages.job_pages import JobPages
from penstock.ingress.pages.json_pages import (
    RequestIds,
    error_page,
    json_response,
    on_crash,
    on_error,
)
from penstock.ingress.pages.model_pages import ModelPages
from penstock.ingress.pages.openapi import document
from penstock.ingress.pages.response_pages import ResponsePages
from penstock.ingress.pages.routing_pages import RoutingPages
from penstock.ingress.pages.subscription_pages import SubscriptionPages
from penstock.ingress.pages.token_pages import TokenPages
from penstock.ingress.pages.usage_pages import UsagePages
from penstock.ingress.pages.webhook_pages import WebhookPages
from penstock.ingress.settings import IngressSettings
from penstock.intake.routes import API_PATHS, path_meant

Endpoint = Callable[[Request], Awaitable[Response]]

_ACCOUNT = "/client/v4/accounts/{account_id}"
_NOT_POST = ["GET", "PUT", "DELETE", "PATCH"]
_HOT_PATHS = (
    *API_PATHS,
    *(f"{_ACCOUNT}/ai{path}" for path in API_PATHS),
    f"{_ACCOUNT}/ai/run",
    f"{_ACCOUNT}/ai/run/{{model:path}}",
)


class Pages(msgspec.Struct, frozen=True):
    """The pages that the application serves."""

    front: FrontPage
    models: ModelPages
    usage: UsagePages
    decisions: DecisionPages
    health: HealthPages
    routing: RoutingPages
    tokens: TokenPages
    responses: ResponsePages
    conversations: ConversationPages
    containers: ContainerPages
    jobs: JobPages
    files: FilePages
    batches: BatchPages
    events: EventPages
    webhooks: WebhookPages
    subscriptions: SubscriptionPages


def build_pages(
    pages: Pages, settings: IngressSettings, lifespan: Lifespan[Starlette]
) -> Starlette:
    """Return the Starlette application; a POST to an inference path never reaches it."""

    models, usage, health = pages.models, pages.usage, pages.health

    async def openapi(_: Request) -> Response:
        return json_response(document())

    routes = [
        *([Route("/", pages.front.show)] if settings.front_page else []),
        Route("/health", health.alive),
        Route("/healthz", health.alive),
        Route("/readyz", health.ready),
        Route("/openapi.json", openapi),
        Route("/v1/usage", usage.usage),
        Route("/v1/usage/requests/{id}", usage.request),
        Route("/v1/usage/sessions/{session:path}", usage.session),
        *pages.decisions.routes(),
        Route("/v1/models", models.list_openai),
        Route("/v1/models/{model:path}", models.show_openai),
        Route(f"{_ACCOUNT}/ai/v1/models", models.list_openai),
        Route(f"{_ACCOUNT}/ai/v1/models/{{model:path}}", models.show_openai),
        Route(f"{_ACCOUNT}/ai/models/search", models.search),
        Route(f"{_ACCOUNT}/ai/models/schema", models.schema),
        Route("/v1/jobs", pages.jobs.list_jobs),
        Route("/v1/jobs/{id}", pages.jobs.show),
        Route("/v1/jobs/{id}", pages.jobs.cancel, methods=["DELETE"]),
        Route(f"{_ACCOUNT}/ai/tasks/{{id}}", pages.jobs.task),
        *_batch_routes(pages.files, pages.batches),
        *pages.events.routes(),
        *pages.webhooks.routes(),
        *pages.subscriptions.routes(),
        Route("/v1/routing/explain", pages.routing.explain, methods=["POST"]),
        Route("/v1/messages/count_tokens", pages.tokens.count_messages, methods=["POST"]),
        Route("/v1/responses/input_tokens", pages.tokens.count_responses, methods=["POST"]),
        *pages.responses.routes("/v1"),
        *pages.responses.routes(f"{_ACCOUNT}/ai/v1"),
        *pages.conversations.routes("/v1"),
        *pages.conversations.routes(f"{_ACCOUNT}/ai/v1"),
        *pages.containers.routes("/v1"),
        *pages.containers.routes(f"{_ACCOUNT}/ai/v1"),
        # Inference paths with another method than POST get 405 instead of 404.
        *(Route(path, _post_only, methods=_NOT_POST) for path in _HOT_PATHS),
    ]
    middleware = [Middleware(RequestIds)]
    if settings.cors_origins:
        cors = Middleware(
            CORSMiddleware,
            allow_origins=list(settings.cors_origins),
            allow_methods=["GET", "POST", "DELETE", "OPTIONS"],
            allow_headers=["*"],
            expose_headers=EXPOSED_HEADERS,
        )
        middleware.append(cors)
    return Starlette(
        routes=routes,
        middleware=middleware,
        lifespan=lifespan,
        exception_handlers={Error: on_error, HTTPException: _on_http, Exception: on_crash},
    )


def _batch_routes(files: FilePages, batches: BatchPages) -> list[Route]:
    return [
        Route("/v1/files", files.list_files),
        Route("/v1/files", files.create, methods=["POST"]),
        Route("/v1/files/{file_id}", files.show),
        Route("/v1/files/{file_id}", files.delete, methods=["DELETE"]),
        Route("/v1/files/{file_id}/content", files.content),
        Route("/v1/batches", batches.list_batches),
        Route("/v1/batches", batches.create, methods=["POST"]),
        Route("/v1/batches/{batch_id}", batches.show),
        Route("/v1/batches/{batch_id}/cancel", batches.cancel, methods=["POST"]),
    ]


async def _post_only(_: Request) -> Response:
    raise MethodNotAllowed("This path takes POST only.")


async def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        return error_page(request, MethodNotAllowed())
    meant = path_meant(str(request.scope["path"]))
    return error_page(
        request, NotFound(f"No such path. Did you mean `{meant}`?" if meant else None)
    )
