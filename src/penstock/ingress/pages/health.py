"""`/healthz`: this worker is alive. `/readyz`: it can serve, or what is missing.

`/readyz?verbose` adds warnings: faults that do not keep the worker from serving.
"""

from collections.abc import Callable

import msgspec
from starlette.requests import Request
from starlette.responses import Response

Check = Callable[[], bool]
Warnings = Callable[[], list[str]]


class HealthPages:
    """Serves both; `checks` are named conditions of this worker, each cheap to evaluate."""

    def __init__(self, checks: dict[str, Check], warnings: Warnings = list) -> None:
        self._checks = checks
        self._warnings = warnings

    async def alive(self, _: Request) -> Response:
        return Response(b'{"status":"ok"}', media_type="application/json")

    async def ready(self, request: Request) -> Response:
        states = {name: check() for name, check in self._checks.items()}
        is_ready = all(states.values())
        body: dict[str, object] = {
            "status": "ready" if is_ready else "not ready",
            "checks": states,
        }
        if "verbose" in request.query_params:
            body["warnings"] = self._warnings()
        return Response(
            msgspec.json.encode(body),
            status_code=200 if is_ready else 503,
            media_type="application/json",
        )
