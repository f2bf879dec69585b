"""`GET /`: a small page for people who open the address in a browser, and JSON for programs.

Nobody signs in here, so it shows what every account may know: that this runs, and the models that
no account has for itself. It repeats nothing that the request says, and runs no script.
"""

from collections.abc import Callable
from html import escape
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from penstock.catalogue import Catalogue
from penstock.ingress.pages.json_pages import json_response
from penstock.records.model import ModelId

_LINKS: Final = {
    "/v1/models": "the models, with a key",
    "/openapi.json": "every path, for tools",
    "/readyz": "can it serve",
    "/healthz": "is it alive",
}
_HEADERS: Final = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'",
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
    # Browsers get another answer than programs.
    "vary": "accept",
}
_STYLE: Final = (
    ":root{color-scheme:light dark}"
    "body{font:16px/1.5 system-ui,sans-serif;max-width:42rem;margin:3rem auto;padding:0 1rem}"
    "h1{margin:0}td{padding:.15rem 1.5rem .15rem 0;vertical-align:top}"
    "td:first-child{overflow-wrap:anywhere}"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere;font-size:14px;padding:.8rem}"
    "pre{border:1px solid #8886}"
)
_EXAMPLE: Final = (
    "from openai import OpenAI\n\n"
    'client = OpenAI(base_url="THIS ADDRESS/v1", api_key="psk_…")\n'
    'asked = [{"role": "user", "content": "Say hello."}]\n'
    'answer = client.chat.completions.create(model="default", messages=asked)\n'
    "print(answer.choices[0].message.content)"
)


class ShownModel(msgspec.Struct, frozen=True):
    """A model that has a replica, ready or not."""

    id: str
    is_ready: bool


class FrontPage:
    """Reads the catalogue and the roster."""

    def __init__(
        self,
        catalogue: Catalogue,
        wanted: Callable[[], frozenset[ModelId]],
        is_ready: Callable[[ModelId], bool],
    ) -> None:
        self._catalogue = catalogue
        self._wanted = wanted
        self._is_ready = is_ready

    async def show(self, request: Request) -> Response:
        models = self._models()
        if "text/html" in request.headers.get("accept", ""):
            return Response(page(models), media_type="text/html", headers=_HEADERS)
        answer = json_response({"service": "penstock", "models": models, "links": list(_LINKS)})
        answer.headers["vary"] = "accept"
        return answer

    def _models(self) -> list[ShownModel]:
        wanted = self._wanted()
        return [
            ShownModel(model.id, self._is_ready(model.id))
            for model in self._catalogue.models
            if model.id in wanted and not model.allowed_accounts
        ]


def page(models: list[ShownModel]) -> str:
    """Return the page's HTML."""
    rows = "".join(
        f"<tr><td>{escape(model.id)}<td>{'ready' if model.is_ready else 'starting'}"
        for model in models
    )
    links = "".join(
        f'<tr><td><a href="{path}">{path}</a><td>{words}' for path, words in _LINKS.items()
    )
    shown = f"<table>{rows}</table>" if models else "<p>No model runs here yet.</p>"
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>Penstock</title><style>{_STYLE}</style>"
        "<h1>Penstock</h1><p>It runs: serverless inference for agents, on your own GPUs.</p>"
        f"<h2>Models</h2>{shown}"
        f"<h2>Use it</h2><pre>{escape(_EXAMPLE)}</pre>"
        f"<h2>Look</h2><table>{links}</table></html>\n"
    )
