"""Puts headers of safety on every answer of the console, errors and redirects included."""

from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

ROOT: Final = "/console"
_SAFETY: Final = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self';"
    " img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none';"
    " base-uri 'none'",
    "x-content-type-options": "nosniff",
    # With "no-referrer" browsers send forms with the origin "null", which could be anybody's.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


class SafetyHeaders:
    """Adds to the console's answers the headers that they do not have."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _is_console(str(scope["path"])):
            await self._app(scope, receive, send)
            return

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _SAFETY.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_safely)


def _is_console(path: str) -> bool:
    return path in ("/", ROOT) or path.startswith(f"{ROOT}/")
