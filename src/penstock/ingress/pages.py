"""Everything that is not hot, on Starlette: models, health, the API's description."""

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

from penstock.errors import Error, InternalError, MethodNotAllowed, NotFound
from penstock.ingress.batch_doors import BatchDoors
from penstock.ingress.event_doors import EventDoors
from penstock.ingress.health import HealthPages
from penstock.ingress.hot import EXPOSED_HEADERS
from penstock.ingress.job_pages import JobPages
from penstock.ingress.json_pages import RequestIds, crash_page, error_page, json_response
from penstock.ingress.model_pages import ModelPages
from penstock.ingress.openapi import document
from penstock.ingress.routes import API_PATHS, path_meant
from penstock.ingress.routing_pages import RoutingPages
from penstock.ingress.settings import Settings
from penstock.ingress.usage_pages import UsagePages

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
    """What there is to look at."""

    models: ModelPages
    usage: UsagePages
    health: HealthPages
    routing: RoutingPages
    jobs: JobPages
    batches: BatchDoors
    events: EventDoors


def build_pages(pages: Pages, settings: Settings, lifespan: Lifespan[Starlette]) -> Starlette:
    """The Starlette application; hot paths never reach it with POST."""

    models, usage, health = pages.models, pages.usage, pages.health

    async def openapi(_: Request) -> Response:
        return json_response(document())

    routes = [
        Route("/healthz", health.alive),
        Route("/readyz", health.ready),
        Route("/openapi.json", openapi),
        Route("/v1/usage", usage.usage),
        Route("/v1/usage/requests/{id}", usage.request),
        Route("/v1/usage/sessions/{session:path}", usage.session),
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
        *_batch_routes(pages.batches),
        *pages.events.routes(),
        Route("/v1/routing/explain", pages.routing.explain, methods=["POST"]),
        # Hot paths with another method than POST: say so, instead of 404.
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
        exception_handlers={Error: _on_error, HTTPException: _on_http, Exception: _on_crash},
    )


def _batch_routes(doors: BatchDoors) -> list[Route]:
    files, batches = doors.files, doors.batches
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


async def _on_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, Error)
    return error_page(request, error)


async def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        return error_page(request, MethodNotAllowed())
    meant = path_meant(str(request.scope["path"]))
    return error_page(
        request, NotFound(f"No such path. Did you mean `{meant}`?" if meant else None)
    )


async def _on_crash(request: Request, _: Exception) -> Response:
    return crash_page(request, InternalError())
