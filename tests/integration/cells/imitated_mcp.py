"""An MCP server in this process, of the stateless revision: it counts what it is asked."""

import json
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

TOOLS = [
    {
        "name": "find",
        "description": "Finds a page.",
        "inputSchema": {"type": "object", "properties": {"q": {"type": "string"}}},
        "annotations": {"readOnlyHint": True},
    },
    {"name": "drop", "description": "Drops a page.", "inputSchema": {"type": "object"}},
    {"name": "fail", "inputSchema": {"type": "object"}},
]


class ImitatedMcp:
    """One server. `asked` counts the methods, `headers` are the last call's."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.called: list[tuple[str, dict[str, Any]]] = []
        self.headers: dict[str, str] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Answering)
        self._server.daemon_threads = True
        self._server.imitated = self  # type: ignore[attr-defined]
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/mcp"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.asked[method] += 1
        if method == "server/discover":
            return {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
        if method == "tools/list":
            return {"tools": TOOLS}
        self.called.append((params["name"], params.get("arguments", {})))
        text = f"{params['name']} gave {json.dumps(params.get('arguments', {}))}"
        is_error = params["name"] == "fail"
        return {"content": [{"type": "text", "text": text}], "isError": is_error}


class _Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        server: ImitatedMcp = self.server.imitated  # type: ignore[attr-defined]
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        server.headers = {name.lower(): value for name, value in self.headers.items()}
        result = server.answer(asked["method"], asked.get("params", {}))
        result.setdefault("resultType", "complete")
        body = json.dumps({"jsonrpc": "2.0", "id": asked.get("id"), "result": result}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
