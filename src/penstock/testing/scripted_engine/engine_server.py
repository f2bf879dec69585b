"""Serves as vLLM 0.32 does, for tests, and stalls, cuts, lies or dies as a script directs.

`python -m penstock.testing.scripted_engine --port 0 --model NAME` prints one line of JSON with its
port and pid, and serves until SIGTERM. `script.py` lists the directives, which a test gives in a
prompt's `@script {…}` line or by `POST /control`; `GET /control/state` shows what it received.
It runs no model. With VLLM_API_KEY set, it wants that key where vLLM does.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import uvloop

from penstock.clock import Clock, SystemClock
from penstock.testing.scripted_engine.engine_apis import APIS
from penstock.testing.scripted_engine.engine_metrics import metrics_page
from penstock.testing.scripted_engine.engine_options import EngineOptions, read_options
from penstock.testing.scripted_engine.engine_parts import EngineParts
from penstock.testing.scripted_engine.engine_request import RequestRefusedError, Served
from penstock.testing.scripted_engine.gpu_locks import hold_gpus
from penstock.testing.scripted_engine.http_connection import HttpConnection, HttpRequest
from penstock.testing.scripted_engine.inference import Inference
from penstock.testing.scripted_engine.response_head import ResponseHead
from penstock.testing.scripted_engine.script import ScriptError, read_control

_BACKLOG = 4096
# What vLLM's key guards of the paths here.
_GUARDED = "/v1"
# Where tokens are counted, each with the API whose bodies it takes.
_COUNTED = {"/v1/messages/count_tokens": "/v1/messages", "/tokenize": "/v1/chat/completions"}


class EngineServer:
    """Answers the engine's pages, and passes inference requests to `Inference`."""

    def __init__(self, options: EngineOptions, clock: Clock, parts: EngineParts) -> None:
        self._options = options
        self._parts = parts
        self._clock = clock
        self._heads = ResponseHead(clock)
        self._inference = Inference(options, clock, self._heads)
        self._key = options.api_key
        self._asked = 0

    async def serve(self, request: HttpRequest, connection: HttpConnection) -> None:
        """Answer one request."""
        path = request.path.partition("?")[0]
        if not self._may_call(path, request):
            self._send(connection, 401, b'{"error":"Unauthorized"}')
            return
        api = APIS.get(path)
        if api is not None and api.runner == self._options.runner:
            if request.method != "POST":
                self._send(connection, 405, b'{"detail":"Method Not Allowed"}')
                return
            self._asked += 1
            if self._parts.is_broken:
                self._send(connection, 500, b'{"error":{"message":"a part has ended"}}')
                asyncio.get_running_loop().call_later(0.1, os._exit, 1)
                return
            if self._options.fail_every and self._asked % self._options.fail_every == 0:
                self._send(connection, 500, b'{"error":{"message":"as it was told"}}')
                return
            await self._inference.run(request, connection, api)
        elif path in _COUNTED and request.method == "POST":
            self._count_tokens(path, request, connection)
        elif path == "/health":
            await self._health(connection)
        elif path == "/control":
            self._control(request, connection)
        else:
            self._page(path, connection)

    def _may_call(self, path: str, request: HttpRequest) -> bool:
        if not self._key or not path.startswith(_GUARDED):
            return True
        return request.headers.get("authorization") == f"Bearer {self._key}"

    def _count_tokens(self, path: str, request: HttpRequest, connection: HttpConnection) -> None:
        served = Served(self._options.model, self._options.max_model_len)
        api = APIS[_COUNTED[path]]
        try:
            count = api.read(request.body, served).prompt_tokens
        except RequestRefusedError as error:
            self._send(connection, error.status, api.refusal(error))
            return
        answer: dict[str, object] = {"input_tokens": count}
        if path == "/tokenize":
            answer = {"count": count, "max_model_len": served.max_model_len}
            answer["tokens"] = list(range(count))
        self._send(connection, 200, msgspec.json.encode(answer))

    async def _health(self, connection: HttpConnection) -> None:
        self._inference.log.probes += 1
        control = self._inference.control
        if control.health_delay:
            await asyncio.sleep(control.health_delay)
        status = 200 if control.healthy else 503
        connection.write(self._heads.plain(status, 0, None))

    def _control(self, request: HttpRequest, connection: HttpConnection) -> None:
        try:
            self._inference.set_control(*read_control(request.body))
        except ScriptError as error:
            self._send(connection, 400, msgspec.json.encode({"detail": str(error)}))
            return
        self._send(connection, 200, b"{}")

    def _page(self, path: str, connection: HttpConnection) -> None:
        if path == "/v1/models":
            self._send(connection, 200, self._models())
        elif path == "/version":
            self._send(connection, 200, b'{"version":"0.32.0"}')
        elif path == "/control/state":
            self._send(connection, 200, self._state())
        elif path == "/metrics":
            self._inference.log.probes += 1
            page = metrics_page(self._inference, self._options.model)
            kind = "text/plain; version=0.0.4; charset=utf-8"
            connection.write(self._heads.plain(200, len(page), kind) + page)
        else:
            self._send(connection, 404, b'{"detail":"Not Found"}')

    def _models(self) -> bytes:
        model = {
            "id": self._options.model,
            "object": "model",
            "created": int(self._clock.now()),
            "owned_by": "vllm",
            "root": self._options.model,
            "parent": None,
            "max_model_len": self._options.max_model_len,
        }
        return msgspec.json.encode({"object": "list", "data": [model]})

    def _state(self) -> bytes:
        slots = self._inference.slots
        state = {"running": slots.running, "waiting": slots.waiting}
        return msgspec.json.encode({**state, **self._inference.log.shown()})

    def _send(self, connection: HttpConnection, status: int, body: bytes) -> None:
        connection.write(self._heads.json(status, len(body)) + body)


async def run(options: EngineOptions) -> None:
    """Serve until SIGTERM or SIGINT, then drain for at most `drain_seconds`."""
    if options.gpu_folder:
        hold_gpus(Path(options.gpu_folder), options.visible_gpus)
    parts = EngineParts(options)
    # Nothing handles SIGTERM yet: it ends a part that waits for the others.
    await parts.join()
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if options.follow_stdin:
        # A killed parent cannot end its children, but the end of its pipe can.
        loop.add_reader(sys.stdin, os._exit, 1)
    await asyncio.sleep(options.start_seconds)
    if options.headless:
        await stop.wait()
        return
    engine = EngineServer(options, SystemClock(), parts)
    opened: set[HttpConnection] = set()
    async with asyncio.TaskGroup() as group:
        server = await loop.create_server(
            lambda: HttpConnection(engine.serve, group, opened),
            options.host,
            options.port,
            backlog=_BACKLOG,
        )
        ready = {"port": server.sockets[0].getsockname()[1], "pid": os.getpid()}
        sys.stdout.write(msgspec.json.encode(ready).decode() + "\n")
        sys.stdout.flush()
        await stop.wait()
        server.close()
        await _drain(opened, options.drain_seconds)


async def _drain(opened: set[HttpConnection], seconds: float) -> None:
    deadline = asyncio.get_running_loop().time() + seconds
    while opened and asyncio.get_running_loop().time() < deadline:
        for connection in list(opened):
            connection.is_draining = True
            if connection.is_idle:
                connection.transport.close()
        await asyncio.sleep(0.01)
    for connection in list(opened):
        connection.transport.abort()


def main(arguments: Sequence[str] | None = None) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run(read_options(arguments)))
