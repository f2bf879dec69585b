"""Every operation of a gateway's `/openapi.json`, as somebody may call it."""

from collections.abc import Callable
from typing import Any

import httpx
import msgspec
from tests.integration.cells.batch_cell import line
from tests.integration.cells.gateway_cell import CHAT, Cell, chat_body
from tests.integration.hostile.tenancy_objects import Objects, subscription

_TRIED = "https://hooks.example/tried"
# An answer without an end is read for so long.
_STREAM_SECONDS = 0.5


class Operation(msgspec.Struct, frozen=True):
    """One method of one path, and whether it takes `?account=`."""

    method: str
    path: str
    has_account_query: bool

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def names_object(self) -> bool:
        """Whether the path names something that an account has."""
        parts = self.path.replace("{account_id}", "").replace("{model}", "")
        return "{" in parts


class Answered(msgspec.Struct, frozen=True):
    """What somebody got."""

    status: int
    headers: str
    body: str

    @property
    def text(self) -> str:
        """Everything that can be read in it."""
        return f"{self.headers}\n{self.body}"


def operations(cell: Cell) -> list[Operation]:
    """As the gateway describes them; what is served is described (tests/unit/ingress)."""
    document = cell.client.get(f"{cell.gateway.url}/openapi.json").json()
    return [
        Operation(method.upper(), path, _takes_account(described))
        for path, methods in document["paths"].items()
        for method, described in methods.items()
    ]


def _takes_account(described: dict[str, Any]) -> bool:
    found = [(each["name"], each["in"]) for each in described.get("parameters", ())]
    return ("account", "query") in found


def target(operation: Operation, account: str, objects: Objects) -> str:
    """The path with this account and the owner's objects in it."""
    path = operation.path
    filled = path.replace("{account_id}", account).replace("{model}", CHAT)
    if not operation.names_object:
        return filled
    # The longest path that shows the object: `/content` and the like are below it.
    shown = [each for each in objects.by_path if path.startswith(each)]
    object_id = objects.by_path.get(operation.name) or objects.by_path.get(max(shown, default=""))
    assert object_id, f"make an object for {operation.name}: tenancy_objects.py"
    # A path may name an object in another: their ids are written one after the other.
    for id in object_id.split():
        before, _, after = filled.partition("{")
        filled = before + id + after.partition("}")[2]
    return filled


def call(cell: Cell, operation: Operation, path: str, headers: dict[str, str]) -> Answered:
    """Call with a body that is in order, so that only who calls can be wrong."""
    build = _BODIES.get(operation.name, _inference if operation.method == "POST" else _nothing)
    request = cell.client.build_request(
        operation.method, cell.gateway.url + path, headers=headers, **build(cell)
    )
    answer = cell.client.send(request, stream=True)
    read = bytearray()
    try:
        if answer.headers.get("content-type", "").startswith("text/event-stream"):
            answer.request.extensions["timeout"]["read"] = _STREAM_SECONDS
        for piece in answer.iter_raw():
            read += piece
    except httpx.ReadTimeout:
        pass
    finally:
        answer.close()
    body = read.decode("utf-8", "replace")
    return Answered(answer.status_code, str(answer.headers), body)


def _nothing(_: Cell) -> dict[str, Any]:
    return {}


def _inference(_: Cell) -> dict[str, Any]:
    """A body that each inference API finds what it needs in."""
    fields = {"input": "hello", "prompt": "hello", "max_tokens": 8}
    return {"json": {**chat_body(CHAT), **fields}}


def _json(body: object) -> Callable[[Cell], dict[str, Any]]:
    return lambda _: {"json": body}


def _file(_: Cell) -> dict[str, Any]:
    return {"data": {"purpose": "batch"}, "files": {"file": ("in.jsonl", line("tried"))}}


def _container_file(_: Cell) -> dict[str, Any]:
    return {"files": {"file": ("tried.csv", b"tried")}}


_WEBHOOK = {"name": "tried", "url": _TRIED, "event_types": ["batch.completed"]}
_SUBSCRIPTIONS = "/client/v4/accounts/{account_id}/event_subscriptions/subscriptions"
_BODIES: dict[str, Callable[[Cell], dict[str, Any]]] = {
    "POST /v1/chat/completions": _json(chat_body(CHAT)),
    "POST /v1/files": _file,
    "POST /v1/batches": _json({
        "input_file_id": "file-none", "endpoint": "/v1/chat/completions",
        "completion_window": "24h",
    }),
    "POST /v1/webhook_endpoints": _json(_WEBHOOK),
    "POST /v1/webhook_endpoints/{id}": _json(_WEBHOOK),
    "POST /v1/webhook_endpoints/{id}/test": _json({"event_type": "batch.completed"}),
    "POST /v1/webhook_endpoints/{id}/rotate_secret": _nothing,
    "POST /v1/batches/{batch_id}/cancel": _nothing,
    **{
        f"POST {base}/{path}": _json(body)
        for base in ("/v1", "/client/v4/accounts/{account_id}/ai/v1")
        for path, body in (
            ("conversations", {"metadata": {"who": "tried"}}),
            ("conversations/{id}", {"metadata": {"who": "tried"}}),
            ("conversations/{id}/items", {"items": [{"role": "user", "content": "tried"}]}),
            ("responses/{id}/cancel", {}),
        )
    },
    **{
        f"POST {base}/containers{path}": build
        for base in ("/v1", "/client/v4/accounts/{account_id}/ai/v1")
        for path, build in (
            ("", _json({"name": "tried"})),
            ("/{container_id}/files", _container_file),
        )
    },
    f"POST {_SUBSCRIPTIONS}": _json(subscription("tried", _TRIED)),
    f"PATCH {_SUBSCRIPTIONS}/{{id}}": _json({"name": "tried"}),
}  # fmt: skip


def post(cell: Cell, path: str, body: object, headers: dict[str, str]) -> Answered:
    answer = cell.client.post(cell.gateway.url + path, json=body, headers=headers)
    return Answered(answer.status_code, str(answer.headers), answer.text)
