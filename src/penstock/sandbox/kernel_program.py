"""Runs the code of one container: the only program of ours inside a sandbox.

It is bound into the container as one file and run by the image's Python, so it imports nothing but
the standard library. It reads requests from standard input and writes events to standard output,
each as four bytes of length and JSON. Code runs in one namespace that stays from call to call; a
thread reads requests meanwhile, so that a call can be interrupted. Whoever reads the events must
trust none of them: code in the container can write events too.
"""

import ast
import base64
import contextlib
import fcntl
import io
import itertools
import json
import linecache
import os
import queue
import resource
import select
import signal
import struct
import sys
import termios
import threading
import traceback
from pathlib import Path
from typing import Any

DATA = Path("/mnt/data")
PIECE = 256 * 1024
FILES_MAX = 1000
TEXT_MAX = 64 * 1024


class Events:
    """Writes events to the host, one at a time."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()

    def send(self, kind: str, **fields: object) -> None:
        body = json.dumps({"type": kind, **fields}).encode()
        data = memoryview(struct.pack(">I", len(body)) + body)
        with self._lock:
            while data:
                data = data[os.write(self._descriptor, data) :]

    def send_pieces(self, kind: str, data: bytes) -> None:
        """Bytes in base64, in as many events as they need."""
        pieces = [data[at : at + PIECE] for at in range(0, len(data), PIECE)] or [b""]
        for number, piece in enumerate(pieces, start=1):
            text = base64.b64encode(piece).decode()
            self.send(kind, data=text, more=number < len(pieces))


class Output:
    """Sends what is written to a file descriptor, by Python or by a subprocess."""

    def __init__(self, events: Events, descriptor: int, name: str) -> None:
        self._events = events
        self._name = name
        self._lock = threading.Lock()
        self._end, writing = os.pipe()
        os.dup2(writing, descriptor)
        os.close(writing)
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self._end)
        while True:
            poll.poll()
            with self._lock:
                data = os.read(self._end, 65536)
                if not data:
                    return
                self._events.send("out", stream=self._name, text=data.decode(errors="replace"))

    def settle(self) -> None:
        """Wait until everything that was written has been sent."""
        while True:
            with self._lock:
                waiting = struct.unpack("i", fcntl.ioctl(self._end, termios.FIONREAD, b"\0" * 4))[0]
                if waiting == 0:
                    return
            threading.Event().wait(0.001)


class Kernel:
    """One namespace, and what is asked of it."""

    def __init__(self) -> None:
        requests, answers = os.dup(0), os.dup(1)
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        self.events = Events(answers)
        self.outputs = [Output(self.events, 1, "stdout"), Output(self.events, 2, "stderr")]
        assert isinstance(sys.stdout, io.TextIOWrapper)
        sys.stdout.reconfigure(line_buffering=True)
        self._requests = os.fdopen(requests, "rb")
        self._asked: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._is_running = False
        self._cells = 0
        self._names: dict[str, Any] = {"__name__": "__main__", "__builtins__": __builtins__}
        threading.Thread(target=self._read, daemon=True).start()

    def run(self) -> None:
        self.events.send("ready")
        while True:
            with contextlib.suppress(KeyboardInterrupt):
                self._serve(self._asked.get())

    def _read(self) -> None:
        while True:
            head = self._requests.read(4)
            if len(head) < 4:
                # The host is gone.
                os._exit(0)
            request = json.loads(self._requests.read(struct.unpack(">I", head)[0]))
            if request["op"] != "interrupt":
                self._asked.put(request)
            elif self._is_running:
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def _serve(self, request: dict[str, Any]) -> None:
        try:
            getattr(self, "do_" + request.pop("op"))(**request)
        except KeyboardInterrupt:
            self.events.send("error", name="KeyboardInterrupt", text="KeyboardInterrupt")
        except Exception as failure:  # noqa: BLE001 - the host is told of all
            text = "".join(traceback.format_exception_only(type(failure), failure))
            self.events.send("error", name=type(failure).__name__, text=text[-TEXT_MAX:])
        self.events.send("done")

    def do_exec(self, code: str) -> None:
        self._is_running = True
        try:
            shown = self._evaluate(code)
            self._settle()
            if shown is not None:
                self._names["_"] = shown
                self._show(shown)
            self._show_figures()
        except BaseException as failure:  # noqa: BLE001 - whatever the code raises
            self._report(failure)
        finally:
            self._is_running = False
            self._settle()

    def _settle(self) -> None:
        """Send what was printed before what comes next."""
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        for output in self.outputs:
            output.settle()

    def _evaluate(self, code: str) -> object:
        """Run it, and return the value of a last line that is an expression."""
        self._cells += 1
        name = f"<cell {self._cells}>"
        linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
        tree = ast.parse(code, name)
        last = tree.body[-1] if tree.body else None
        if not isinstance(last, ast.Expr):
            exec(compile(tree, name, "exec"), self._names)  # noqa: S102 - what it is for
            return None
        tree.body.pop()
        exec(compile(tree, name, "exec"), self._names)  # noqa: S102 - what it is for
        value = ast.Expression(last.value)
        return eval(compile(value, name, "eval"), self._names)  # noqa: S307 - what it is for

    def _report(self, failure: BaseException) -> None:
        # The frames of this file say nothing to the model.
        trace = failure.__traceback__
        while trace is not None and not trace.tb_frame.f_code.co_filename.startswith("<cell"):
            trace = trace.tb_next
        lines = traceback.format_exception(type(failure), failure, trace)
        self.events.send("error", name=type(failure).__name__, text="".join(lines)[-TEXT_MAX:])

    def _show(self, value: object) -> None:
        self.events.send("show", media="text/plain", text=repr(value)[:TEXT_MAX])
        for media, method in (("text/html", "_repr_html_"), ("image/png", "_repr_png_")):
            make = getattr(value, method, None)
            made = make() if callable(make) and not isinstance(value, type) else None
            if isinstance(made, str):
                self.events.send("show", media=media, text=made[:TEXT_MAX])
            elif isinstance(made, bytes):
                self.events.send_pieces("image", made)

    def _show_figures(self) -> None:
        plots = sys.modules.get("matplotlib.pyplot")
        if plots is None:
            return
        for number in plots.get_fignums():
            picture = io.BytesIO()
            plots.figure(number).savefig(picture, format="png", bbox_inches="tight")
            self.events.send_pieces("image", picture.getvalue())
        plots.close("all")

    def do_put(self, path: str, data: str, *, append: bool = False) -> None:
        whole = DATA / path
        whole.parent.mkdir(parents=True, exist_ok=True)
        with whole.open("ab" if append else "wb") as file:
            file.write(base64.b64decode(data))

    def do_get(self, path: str, bytes_max: int) -> None:
        with (DATA / path).open("rb") as file:
            self.events.send_pieces("data", file.read(bytes_max))

    def do_list(self) -> None:
        found: list[dict[str, object]] = []
        for path in itertools.islice(sorted(DATA.rglob("*")), FILES_MAX):
            if path.is_file() and not path.is_symlink():
                state = path.stat()
                inside = str(path.relative_to(DATA))
                found.append({"path": inside, "bytes": state.st_size, "mtime": state.st_mtime_ns})
        self.events.send("files", files=found)


if __name__ == "__main__":
    # A call that wants too much gets a MemoryError, and the namespace lives on; what takes memory
    # in many small pieces or in many processes meets the container's own bound.
    memory_bytes = int(sys.argv[1]) * 7 // 8
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    os.chdir(DATA)
    Kernel().run()
