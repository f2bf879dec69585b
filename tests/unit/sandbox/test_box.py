"""What a box takes from a kernel, and what it does not, with streams in memory."""

import asyncio
import base64
import json
import struct
from collections.abc import AsyncIterator
from typing import Any

import pytest

from penstock.sandbox import box as box_module
from penstock.sandbox.box import Box, BoxBounds, BoxLost, path_inside
from penstock.sandbox.kernel_events import CallEvent, Picture
from penstock.wire.resources.sandbox import FileEntry, Output

BOUNDS = BoxBounds()
DONE = {"type": "done"}


class _Sink(asyncio.WriteTransport):
    """A pipe that nobody reads: it keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def requests(self) -> list[dict[str, Any]]:
        found, rest = [], self.written
        while rest:
            [length] = struct.unpack(">I", rest[:4])
            found.append(json.loads(rest[4 : 4 + length]))
            rest = rest[4 + length :]
        return found


class _Kernel:
    """A box, and the ends of its pipes that a kernel has."""

    def __init__(self, bounds: BoxBounds = BOUNDS) -> None:
        self.events = asyncio.StreamReader()
        self.sink = _Sink()
        self.box = Box(self.events, self.sink, bounds)

    def send(self, *events: dict[str, Any]) -> None:
        for event in events:
            self.send_body(json.dumps(event).encode())

    def send_body(self, body: bytes, length: int | None = None) -> None:
        size = len(body) if length is None else length
        self.events.feed_data(struct.pack(">I", size) + body)

    async def run(self, seconds: float = 5.0) -> list[CallEvent]:
        return [event async for event in self.box.execute("code", seconds)]


def _out(text: str) -> dict[str, Any]:
    return {"type": "out", "stream": "stdout", "text": text}


def _image(data: bytes, *, more: bool = False) -> dict[str, Any]:
    return {"type": "image", "data": base64.b64encode(data).decode(), "more": more}


def _data(data: bytes) -> dict[str, Any]:
    return {"type": "data", "data": base64.b64encode(data).decode()}


def _file(path: str, size: int = 1, mtime: int = 1) -> dict[str, Any]:
    return {"path": path, "bytes": size, "mtime": mtime}


async def test_events_of_a_call_come_in_order() -> None:
    kernel = _Kernel()
    kernel.send(_out("a"), _image(b"p"), DONE)
    assert await kernel.run() == [Output("stdout", "a"), Picture(b"p", more=False)]
    assert kernel.sink.requests() == [{"op": "exec", "code": "code"}]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"abc",
        b"null",
        b"[]",
        b"{}",
        b'{"type":"unknown"}',
        b'{"type":"out","stream":"elsewhere","text":""}',
        b'{"type":"out","stream":"stdout","text":1}',
        b'{"type":"out","stream":"stdout","text":"\xff"}',
        b'{"type":"out","stream":"stdout","text":"\\ud800"}',
        b'{"type":"show","media":"text/x","text":""}',
        b'{"type":"image","data":"?","more":false}',
        b'{"type":"error","name":"' + b"E" * 201 + b'","text":""}',
        b'{"type":"out","x":' + b"[" * 100_000,
        b'{"type":"files","files":[{"path":"a","bytes":-1,"mtime":1}]}',
        b'{"type":"files","files":[{"path":"a","bytes":' + b"9" * 4000 + b',"mtime":1}]}',
        b'{"type":"files","files":[{"path":"' + b"a" * 256 + b'","bytes":1,"mtime":1}]}',
    ],
)
async def test_a_malformed_event_loses_the_container(body: bytes) -> None:
    kernel = _Kernel()
    kernel.send_body(body)
    with pytest.raises(BoxLost, match="malformed"):
        await kernel.run()


@pytest.mark.parametrize("event", [{"type": "ready"}, {"type": "files", "files": []}, _data(b"x")])
async def test_events_of_other_requests_lose_the_container(event: dict[str, Any]) -> None:
    kernel = _Kernel()
    kernel.send(event)
    with pytest.raises(BoxLost, match="nobody had asked"):
        await kernel.run()


async def test_an_event_is_refused_by_its_length_before_it_is_read() -> None:
    kernel = _Kernel()
    kernel.send_body(b"", 2**20 + 1)
    with pytest.raises(BoxLost, match="too much at once"):
        await kernel.run()


async def test_too_many_files_lose_the_container() -> None:
    kernel = _Kernel()
    kernel.send({"type": "files", "files": [_file("a")] * 1001}, DONE)
    with pytest.raises(BoxLost, match="malformed"):
        await kernel.box.files()


async def test_an_end_within_an_event_loses_the_container() -> None:
    kernel = _Kernel()
    kernel.send_body(b"{", 100)
    kernel.events.feed_eof()
    with pytest.raises(BoxLost, match="has ended"):
        await kernel.run()


async def test_output_is_bounded_in_bytes() -> None:
    kernel = _Kernel(BoxBounds(output_bytes_max=1000))
    kernel.send(_out("a" * 500), DONE)
    await kernel.run()
    kernel.send_body(json.dumps(_out("\U0001f600" * 250), ensure_ascii=False).encode())
    with pytest.raises(BoxLost, match="printed too much"):
        await kernel.run()


async def test_pictures_are_bounded_in_size_and_number() -> None:
    bounds = BoxBounds(picture_bytes_max=10, pictures_max=2)
    kernel = _Kernel(bounds)
    kernel.send(_image(b"x" * 6, more=True), _image(b"x" * 5))
    with pytest.raises(BoxLost, match="too large"):
        await kernel.run()
    kernel = _Kernel(bounds)
    kernel.send(*[_image(b"x" * 10)] * 2, DONE, *[_image(b"x")] * 3)
    assert len(await kernel.run()) == 2
    with pytest.raises(BoxLost, match="printed too much"):
        await kernel.run()


async def test_events_without_content_are_bounded_in_number() -> None:
    kernel = _Kernel(BoxBounds(events_max=100))
    kernel.send(*[_image(b"", more=True)] * 101)
    with pytest.raises(BoxLost, match="printed too much"):
        await kernel.run()


async def test_events_without_an_end_are_bounded_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(box_module, "_GRACE_SECONDS", 0.05)
    kernel = _Kernel()
    kernel.send(*[_out("x")] * 10_000)
    with pytest.raises(BoxLost, match="took longer"):
        await _spend_on_each(kernel.box.execute("code", 0.05))
    assert [request["op"] for request in kernel.sink.requests()] == ["exec", "interrupt"]


async def _spend_on_each(events: AsyncIterator[CallEvent]) -> None:
    """Give the loop no turn, as the box gives it none: the events are all here."""
    async for _ in events:
        until = asyncio.get_running_loop().time() + 0.001
        while asyncio.get_running_loop().time() < until:
            pass


async def test_an_event_that_comes_during_the_interrupt_stays_whole() -> None:
    kernel = _Kernel()
    body = json.dumps(_out("late")).encode()
    kernel.send_body(body[:10], len(body))
    loop = asyncio.get_running_loop()
    loop.call_later(0.2, kernel.events.feed_data, body[10:])
    loop.call_later(0.2, kernel.send, DONE)
    assert await kernel.run(0.05) == [Output("stdout", "late")]


async def test_a_kernel_that_reads_nothing_holds_no_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(box_module, "_FILES_SECONDS", 0.05)
    kernel = _Kernel()
    with pytest.raises(BoxLost, match="does not answer"):
        await kernel.box.put("a", b"x" * 2**20)


async def test_a_request_after_one_that_was_cut_short_is_refused() -> None:
    kernel = _Kernel()
    kernel.send(_out("a"), _out("b"), DONE)
    events = kernel.box.execute("code", 5.0)
    await anext(events)
    with pytest.raises(BoxLost, match="not ended"):
        await kernel.box.files()
    await events.aclose()
    with pytest.raises(BoxLost, match="not ended"):
        await kernel.run()


async def test_output_during_a_request_for_files_is_dropped_and_bounded() -> None:
    kernel = _Kernel()
    kernel.send(_out("stray"), {"type": "files", "files": [_file("a")]}, DONE)
    assert await kernel.box.files() == [FileEntry("a", 1, 1)]
    kernel.send(*[_out("x" * 900_000)] * 4)
    with pytest.raises(BoxLost, match="more than was asked"):
        await kernel.box.files()


async def test_content_is_bounded_by_what_was_asked() -> None:
    kernel = _Kernel()
    kernel.send(_data(b"abc"), _data(b"def"), DONE)
    assert await kernel.box.get("a", 5) == b"abcde"
    kernel.send(*[_data(b"x" * 500_000)] * 5)
    with pytest.raises(BoxLost, match="more than was asked"):
        await kernel.box.get("a", 5)


async def test_a_refusal_keeps_the_container() -> None:
    kernel = _Kernel()
    kernel.send({"type": "error", "name": "OSError", "text": "no " * 10_000}, DONE, DONE)
    with pytest.raises(OSError, match=r"^no no") as refused:
        await kernel.box.get("a", 5)
    assert len(str(refused.value)) <= 500
    await kernel.box.put("a", b"")


async def test_paths_of_a_listing_are_inside_and_named_once() -> None:
    kernel = _Kernel()
    paths = ["a", "../b", "/etc/passwd", "a/../b", "x/./y", "", ".", "new\nline", "a"]
    kernel.send({"type": "files", "files": [_file(path) for path in paths]}, DONE)
    assert [entry.path for entry in await kernel.box.files()] == ["a"]


async def test_a_kernel_that_does_not_start_is_lost() -> None:
    kernel = _Kernel()
    with pytest.raises(BoxLost, match="did not start"):
        await kernel.box.wait_ready(0.01)
    kernel.send(DONE)
    with pytest.raises(BoxLost, match="as it should"):
        await kernel.box.wait_ready(1.0)


@pytest.mark.parametrize(
    ("path", "inside"), [("a", "a"), ("./a//b/", "a/b"), ("é.txt", "é.txt"), ("..a", "..a")]
)
def test_a_path_inside_is_made_plain(path: str, inside: str) -> None:
    assert path_inside(path) == inside


@pytest.mark.parametrize(
    "path",
    ["", ".", "./", "/", "/a", "//a", "..", "a/..", "a/../b", "\0", "a\n", "\udc80", "a" * 256],
)
def test_other_paths_are_refused(path: str) -> None:
    with pytest.raises(ValueError, match="path"):
        path_inside(path)
