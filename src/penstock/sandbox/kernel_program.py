"""Runs the code of one container: the only program of ours inside a sandbox.

It is bound into the container as one file and run by the image's Python, so it imports nothing but
the standard library. It reads requests from standard input and writes events to standard output,
each as four bytes of length and JSON. Code runs in one namespace that stays from call to call; a
thread reads requests meanwhile, so that a call can be interrupted. Whoever reads the events must
trust none of them: code in the container can write events too.
"""

import ast
import base64
import codecs
import contextlib
import fcntl
import io
import json
import linecache
import os
import queue
import resource
import select
import shutil
import signal
import stat
import struct
import sys
import termios
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO

DATA = Path("/mnt/data")
PIECE = 192 * 1024
PIPE_BYTES = 64 * 1024
# Bounds of the host, which ends a container whose events exceed them.
FILES_MAX = 1000
FILES_BYTES_MAX = 512 * 1024
PATH_MAX = 255
NAME_MAX = 200
TEXT_MAX = 64 * 1024
TIME_MAX = 2**63 - 1
# What is printed meanwhile goes in one event: a loop that prints lines makes few events.
GATHER_SECONDS = 0.005


class Events:
    """Writes events to the host, one at a time."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()

    def send(self, kind: str, **fields: object) -> None:
        # Half a surrogate pair is text for Python, but for no reader of JSON.
        body = json.dumps({"type": kind, **fields}, ensure_ascii=False).encode(errors="replace")
        data = memoryview(struct.pack(">I", len(body)) + body)
        with self._lock:
            while data:
                data = data[os.write(self._descriptor, data) :]

    def send_picture(self, data: bytes) -> None:
        for at in range(0, max(1, len(data)), PIECE):
            piece = base64.b64encode(data[at : at + PIECE]).decode()
            self.send("image", data=piece, more=at + PIECE < len(data))

    def send_failure(self, failure: BaseException, lines: list[str]) -> None:
        name = type(failure).__name__[:NAME_MAX]
        self.send("error", name=name, text="".join(lines)[-TEXT_MAX:])


class Capture:
    """Sends what is written to a file descriptor, by Python or by a subprocess."""

    def __init__(self, events: Events, descriptor: int, name: str) -> None:
        self._events = events
        self._name = name
        self._lock = threading.Lock()
        # A character may lie across two reads.
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._end, writing = os.pipe()
        os.dup2(writing, descriptor)
        os.close(writing)
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self._end, select.POLLIN)
        while True:
            [(_, state)] = poll.poll()
            if state == select.POLLHUP:
                return
            time.sleep(GATHER_SECONDS)
            # The call that took all memory ends some time, and its output is then sent.
            with contextlib.suppress(MemoryError):
                self.settle()

    def settle(self, *, is_last: bool = False) -> None:
        """Send what has been written until now, and no more: a subprocess may never stop."""
        with self._lock:
            [waiting] = struct.unpack("i", fcntl.ioctl(self._end, termios.FIONREAD, b"\0" * 4))
            while waiting > 0:
                data = os.read(self._end, min(waiting, PIPE_BYTES))
                waiting -= len(data)
                self._send(self._decoder.decode(data))
            if is_last:
                self._send(self._decoder.decode(b"", final=True))

    def _send(self, text: str) -> None:
        if text:
            self._events.send("out", stream=self._name, text=text)


class Kernel:
    """One namespace, and what is asked of it."""

    def __init__(self) -> None:
        requests, answers = os.dup(0), os.dup(1)
        nothing = os.open("/dev/null", os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        self.events = Events(answers)
        self.captures = [Capture(self.events, 1, "stdout"), Capture(self.events, 2, "stderr")]
        assert isinstance(sys.stdout, io.TextIOWrapper)
        sys.stdout.reconfigure(line_buffering=True)
        self._requests = os.fdopen(requests, "rb")
        self._asked: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._pid = os.getpid()
        self._is_running = False
        self._cells = 0
        self._names: dict[str, Any] = {"__name__": "__main__", "__builtins__": __builtins__}
        signal.signal(signal.SIGINT, self._interrupt)
        threading.Thread(target=self._read, daemon=True).start()

    def run(self) -> None:
        self.events.send("ready")
        while True:
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
                # To the thread that runs the code, so that a call it waits in ends.
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def _interrupt(self, _number: int, _frame: FrameType | None) -> None:
        """End the running code, and never the sending of an event: half of one ends the host's."""
        if self._is_running:
            self._is_running = False
            raise KeyboardInterrupt

    def _serve(self, request: dict[str, Any]) -> None:
        try:
            getattr(self, "do_" + request.pop("op"))(**request)
        except Exception as failure:  # noqa: BLE001 - the host is told of all
            lines = traceback.format_exception_only(type(failure), failure)
            self.events.send_failure(failure, lines)
        self.events.send("done")

    def do_exec(self, code: str) -> None:
        failure: BaseException | None = None
        shown: list[tuple[str, str | bytes]] = []
        try:
            self._is_running = True
            shown = self._run_code(code)
            self._is_running = False
        except BaseException as raised:  # noqa: BLE001 - whatever the code raises
            self._is_running = False
            failure = raised
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        if os.getpid() != self._pid:
            # A fork of the code has come to its end. The answer is its parent's.
            os._exit(0)
        # What was printed goes before what comes next.
        for capture in self.captures:
            capture.settle(is_last=True)
        for media, made in shown:
            if isinstance(made, bytes):
                self.events.send_picture(made)
            else:
                self.events.send("show", media=media, text=made[:TEXT_MAX])
        if failure is not None:
            self._report(failure)

    def _run_code(self, code: str) -> list[tuple[str, str | bytes]]:
        """Run it; return the media and the data of all that it shows."""
        shown: list[tuple[str, str | bytes]] = []
        value = self._evaluate(code)
        if value is not None:
            self._names["_"] = value
            shown += self._forms(value)
        return [*shown, *(("image/png", picture) for picture in self._figures())]

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

    def _forms(self, value: object) -> Iterator[tuple[str, str | bytes]]:
        """Yield the value as text and, where it can be one, as a page or a picture."""
        yield "text/plain", repr(value)
        for media, method in (("text/html", "_repr_html_"), ("image/png", "_repr_png_")):
            make = getattr(value, method, None)
            made = make() if callable(make) and not isinstance(value, type) else None
            if isinstance(made, str | bytes):
                yield media, made

    def _figures(self) -> Iterator[bytes]:
        """Yield the figures that matplotlib holds, as pictures."""
        plots = sys.modules.get("matplotlib.pyplot")
        if plots is None:
            return
        for number in plots.get_fignums():
            picture = io.BytesIO()
            plots.figure(number).savefig(picture, format="png", bbox_inches="tight")
            yield picture.getvalue()
        plots.close("all")

    def _report(self, failure: BaseException) -> None:
        # The frames of this file say nothing to the model.
        trace = failure.__traceback__
        while trace is not None and not trace.tb_frame.f_code.co_filename.startswith("<cell"):
            trace = trace.tb_next
        report = traceback.TracebackException(type(failure), failure, trace)
        frames = [frame for frame in report.stack if frame.filename != __file__]
        report.stack = traceback.StackSummary.from_list(frames)
        self.events.send_failure(failure, list(report.format()))

    def do_put(self, path: str, data: str, *, append: bool = False) -> None:
        whole = DATA / path
        whole.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if append else os.O_TRUNC)
        with _opened(whole, flags) as file:
            file.write(base64.b64decode(data))

    def do_get(self, path: str, bytes_max: int) -> None:
        left = bytes_max
        with _opened(DATA / path, os.O_RDONLY) as file:
            while piece := file.read(min(PIECE, left)):
                left -= len(piece)
                self.events.send("data", data=base64.b64encode(piece).decode())

    def do_list(self) -> None:
        found: list[dict[str, object]] = []
        size = 0
        for path in _regular_files():
            inside = str(path.relative_to(DATA))
            # The host refuses other paths, and a listing of more bytes.
            if len(inside) > PATH_MAX or not inside.isprintable():
                continue
            size += len(inside.encode()) + 80
            if len(found) == FILES_MAX or size > FILES_BYTES_MAX:
                break
            with contextlib.suppress(OSError):
                state = path.stat()
                changed = min(max(0, state.st_mtime_ns), TIME_MAX)
                found.append({"path": inside, "bytes": state.st_size, "mtime": changed})
        self.events.send("files", files=found)


@contextlib.contextmanager
def _opened(path: Path, flags: int) -> Iterator[BinaryIO]:
    """Open a regular file: a pipe or a device could block for ever, or never end."""
    descriptor = os.open(path, flags | os.O_NONBLOCK, 0o644)
    with os.fdopen(descriptor, "rb" if flags == os.O_RDONLY else "wb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path} is not a regular file")
        yield file


def _regular_files() -> Iterator[Path]:
    for folder, folders, names in os.walk(DATA):
        folders.sort()
        for name in sorted(names):
            path = Path(folder, name)
            if path.is_file() and not path.is_symlink():
                yield path


if __name__ == "__main__":
    # A call that wants too much gets a MemoryError, and the namespace lives on; what takes memory
    # in many small pieces or in many processes meets the container's own bound.
    memory_bytes = int(sys.argv[1]) * 7 // 8
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    if len(sys.argv) > 2:
        # Without a container there is no /mnt/data.
        DATA = Path(sys.argv[2])
    os.chdir(DATA)
    with contextlib.suppress(OSError, KeyError):
        # The image's list of fonts, which matplotlib would make, and say so, at the first plot.
        folder = os.environ["MPLCONFIGDIR"]  # noqa: TID251 - the container's, which the host has set
        shutil.copytree("/opt/python/share/matplotlib", folder)
    Kernel().run()
