"""A sandbox host in this process: its HTTP surface, files in memory, and code that only it knows.

Code is looked up in a table and never run; everything else is as a host's, over real sockets.
"""

import re
import threading
import time
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote

import msgspec

from penstock.clock import new_id
from penstock.wire.resources.sandbox import (
    CallEnded,
    CallLine,
    ChangedFiles,
    CodeCall,
    FileEntry,
    FileNames,
    NewContainer,
    SandboxRefusal,
    SandboxStatus,
    StartedContainer,
)

TOKEN = "imitated-sandbox-token"


_ID = re.compile(r"[0-9a-f]{32}")


class Scripted(msgspec.Struct):
    """What a piece of code does: writes lines, files, takes time, and may kill the host."""

    lines: Sequence[CallLine] = ()
    files: Mapping[str, bytes] = {}
    seconds: float = 0.0
    dies: bool = False
    has_last_line: bool = True


class ImitatedSandbox:
    """One host. `boot` changes with `reboot`, and all containers are gone then."""

    def __init__(self, **status: Any) -> None:
        self.offered = {
            "driver": "imitated",
            "isolation": "namespaces",
            "is_dev": False,
            "memory_tiers_mb": [1024, 4096],
            "containers_max": 64,
            "warm": 2,
            **status,
        }
        self.boot = new_id()
        self.script: dict[str, Scripted] = {}
        self.containers: dict[str, dict[str, bytes]] = {}
        self.asked_for: dict[str, NewContainer] = {}
        self.calls: list[CodeCall] = []
        self.interrupted: list[str] = []
        self.busy: set[str] = set()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Answering)
        self._server.daemon_threads = True
        self._server.imitated = self  # type: ignore[attr-defined]
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End the process, as far as others see: nothing listens any more."""
        self._server.shutdown()
        self._server.server_close()

    def stop_listening(self) -> None:
        """Close the socket of a host that was never started."""
        self._server.server_close()

    def reboot(self) -> None:
        self.boot = new_id()
        self.containers.clear()

    def status(self) -> SandboxStatus:
        return msgspec.convert(
            {**self.offered, "boot": self.boot, "containers": len(self.containers)}, SandboxStatus
        )


class _Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def _host(self) -> ImitatedSandbox:
        host: ImitatedSandbox = self.server.imitated  # type: ignore[attr-defined]
        return host

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_PUT(self) -> None:
        self._serve()

    def do_DELETE(self) -> None:
        self._serve()

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.headers.get("authorization") != f"Bearer {TOKEN}":
            return self._refuse(401, "unauthorized")
        parts = self.path.strip("/").split("/", 3)
        if parts == ["status"]:
            return self._answer(self._host.status())
        return self._serve_container(parts, body)

    def _serve_container(self, parts: list[str], body: bytes) -> None:
        id, what = parts[1], parts[2] if len(parts) > 2 else ""
        if not _ID.fullmatch(id):
            return self._refuse(404, "not_found")
        if self.command == "POST" and not what:
            return self._start(id, msgspec.json.decode(body, type=NewContainer))
        if id not in self._host.containers:
            return self._refuse(404, "not_found")
        if what == "exec":
            return self._run(id, msgspec.json.decode(body, type=CodeCall))
        if what == "files":
            return self._file(id, unquote(parts[3]) if len(parts) > 3 else "", body)
        if what == "interrupt":
            self._host.interrupted.append(id)
        else:
            del self._host.containers[id]
        return self._answer({})

    def _start(self, id: str, new: NewContainer) -> None:
        host = self._host
        if len(host.containers) >= host.status().containers_max:
            return self._refuse(503, "full")
        host.containers[id] = {}
        host.asked_for[id] = new
        return self._answer(StartedContainer(host.boot, was_warm=True))

    def _file(self, id: str, path: str, body: bytes) -> None:
        files = self._host.containers[id]
        if not path:
            return self._answer(FileNames([_entry(name, files[name]) for name in files]))
        if self.command == "PUT":
            files[path] = body
            return self._answer({})
        if path not in files:
            return self._refuse(404, "not_found")
        return self._answer(files[path])

    def _run(self, id: str, call: CodeCall) -> None:
        host = self._host
        if id in host.busy:
            return self._refuse(409, "busy")
        host.calls.append(call)
        scripted = host.script.get(call.code, Scripted())
        host.busy.add(id)
        try:
            self.send_response(200)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for line in scripted.lines:
                self._line(line)
            self._wait(id, scripted.seconds)
            if scripted.dies:
                self.close_connection = True
                self.connection.close()
                return None
            host.containers[id].update(scripted.files)
            if scripted.files:
                changed = [_entry(path, content) for path, content in scripted.files.items()]
                self._line(ChangedFiles(changed))
            if scripted.has_last_line:
                self._line(CallEnded(scripted.seconds or 0.25))
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            # Whoever asked has gone.
            self.close_connection = True
        finally:
            host.busy.discard(id)

    def _wait(self, id: str, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until and id not in self._host.interrupted:
            time.sleep(0.02)

    def _line(self, line: CallLine) -> None:
        text = msgspec.json.encode(line) + b"\n"
        self.wfile.write(f"{len(text):x}\r\n".encode() + text + b"\r\n")
        self.wfile.flush()

    def _refuse(self, status: int, code: Any) -> None:
        self._answer(SandboxRefusal(code, "Refused."), status)

    def _answer(self, answer: object, status: int = 200) -> None:
        body = answer if isinstance(answer, bytes) else msgspec.json.encode(answer)
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def sandbox_settings(folder: Path, *hosts: ImitatedSandbox) -> dict[str, Any]:
    """Settings of a gateway or control that uses these hosts, for several accounts."""
    token = folder / "sandbox.token"
    token.write_text(f"{TOKEN}\n")
    return {
        "tools.sandbox_hosts": [host.url for host in hosts],
        "tools.sandbox_token_file": str(token),
        "tools.allow_shared_kernel": True,
    }


def _entry(path: str, content: bytes) -> FileEntry:
    return FileEntry(path, len(content), time.time_ns())
