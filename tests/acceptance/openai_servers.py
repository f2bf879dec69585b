"""Servers in the shapes of Ollama, llama.cpp's server and SGLang, for `up --attach`.

Each has the paths, the model list and the chunks of its original, and refuses fields that OpenAI's
API does not have, as strict servers do. The words of an answer are always the same.
"""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

WORDS = ("The ", "capital ", "is ", "Paris.")
PROMPT_TOKENS = 26
_VLLM_ONLY = {"cache_salt", "priority", "request_id", "session_id"}


class Shape(NamedTuple):
    """How one kind of server writes."""

    models: list[dict[str, Any]]
    health: int
    chunk: Callable[[list[dict[str, Any]]], dict[str, Any]]
    choice: Callable[[str, str | None], dict[str, Any]]
    # What the last chunk and whole answers have behind the counts.
    counts: dict[str, Any]
    separators: tuple[str, str] = (",", ":")
    line_end: str = "\n"


def _ollama_chunk(choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1,
        "model": "llama3.2:latest", "system_fingerprint": "fp_ollama", "choices": choices,
    }  # fmt: skip


def _llama_cpp_chunk(choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "choices": choices, "created": 1, "id": "chatcmpl-1", "model": "smol.gguf",
        "system_fingerprint": "b6000-0a1b2c3d", "object": "chat.completion.chunk",
    }  # fmt: skip


def _sglang_chunk(choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": "1", "object": "chat.completion.chunk", "created": 1, "model": "acme/sglang-model",
        "choices": choices, "usage": None,
    }  # fmt: skip


def _plain_choice(text: str, finish: str | None) -> dict[str, Any]:
    delta = {"role": "assistant", "content": text}
    return {"index": 0, "delta": delta, "finish_reason": finish}


def _llama_cpp_choice(text: str, finish: str | None) -> dict[str, Any]:
    return {"finish_reason": finish, "index": 0, "delta": {"content": text} if text else {}}


def _sglang_choice(text: str, finish: str | None) -> dict[str, Any]:
    delta = {"role": None, "content": text, "reasoning_content": None, "tool_calls": None}
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}


OLLAMA = Shape(
    [
        {"id": "llama3.2:latest", "object": "model", "created": 1, "owned_by": "library"},
        {"id": "qwen3:0.6b", "object": "model", "created": 1, "owned_by": "library"},
    ],
    404,
    _ollama_chunk,
    _plain_choice,
    {},
)
LLAMA_CPP = Shape(
    [
        {
            "id": "smol.gguf", "object": "model", "created": 1, "owned_by": "llamacpp",
            "meta": {"vocab_type": 2, "n_vocab": 49152, "n_ctx_train": 8192},
        }
    ],
    200,
    _llama_cpp_chunk,
    _llama_cpp_choice,
    {"timings": {"prompt_n": 26, "prompt_ms": 1.0}},
)  # fmt: skip
# With white space and carriage returns, as Python's servers may write.
SGLANG = Shape(
    [
        {
            "id": "acme/sglang-model", "object": "model", "created": 1, "owned_by": "sglang",
            "root": "acme/sglang-model", "max_model_len": 4096,
        }
    ],
    200,
    _sglang_chunk,
    _sglang_choice,
    {},
    (", ", ": "),
    "\r\n",
)  # fmt: skip


@contextmanager
def serving(shape: Shape) -> Iterator[str]:
    """Run a server of this shape; yields its base URL."""

    class Handler(_Handler):
        pass

    Handler.shape = shape
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    shape: Shape

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            self._answer(200, {"object": "list", "data": self.shape.models})
        elif self.path == "/health" and self.shape.health == 200:
            self._answer(200, {"status": "ok"})
        else:
            self._not_found()

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        unknown = _VLLM_ONLY & body.keys()
        if self.path != "/v1/chat/completions":
            self._not_found()
        elif unknown:
            self._answer(400, {"error": {"message": f"unknown field: {sorted(unknown)}"}})
        elif body.get("stream"):
            self._stream(wants_usage=body.get("stream_options", {}).get("include_usage", False))
        else:
            message = {"role": "assistant", "content": "".join(WORDS)}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            whole = {**self.shape.chunk([choice]), "object": "chat.completion"}
            self._answer(200, {**whole, "usage": _usage(), **self.shape.counts})

    def _stream(self, *, wants_usage: bool) -> None:
        shape = self.shape
        chunks = [shape.chunk([shape.choice(word, None)]) for word in WORDS]
        chunks.append(shape.chunk([shape.choice("", "stop")]))
        if wants_usage:
            chunks.append({**shape.chunk([]), "usage": _usage(), **shape.counts})
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        texts = [json.dumps(each, separators=shape.separators) for each in chunks]
        for chunk in (*texts, "[DONE]"):
            data = f"data: {chunk}{shape.line_end * 2}".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.write(b"0\r\n\r\n")

    def _not_found(self) -> None:
        text = b"404 page not found"
        self.send_response(404)
        self.send_header("content-type", "text/plain")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body, separators=self.shape.separators).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _usage() -> dict[str, Any]:
    total = PROMPT_TOKENS + len(WORDS)
    return {
        "prompt_tokens": PROMPT_TOKENS, "completion_tokens": len(WORDS), "total_tokens": total,
    }  # fmt: skip
