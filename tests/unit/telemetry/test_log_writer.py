"""The log's writer: lines come out in order, and a reader that stops holds up nobody."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.telemetry.log_writer import LogWriter, WrittenText

BUFFER = 64 * 1024


class Pipe:
    """A pipe that nobody reads until `read_until`."""

    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe()

    def read_until(self, has_all: Callable[[bytes], bool]) -> bytes:
        read = b""
        os.set_blocking(self.read_end, False)
        deadline = time.monotonic() + 8
        while not has_all(read) and time.monotonic() < deadline:
            try:
                read += os.read(self.read_end, 2**20)
            except BlockingIOError:
                time.sleep(0.001)
        return read


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    for end in (made.read_end, made.write_end):
        with contextlib.suppress(OSError):
            os.close(end)


def test_lines_come_out_whole_and_in_order(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as file:
        writer = LogWriter(file.fileno(), BUFFER)
        for number in range(1000):
            writer.put(b"line %d\n" % number, 1)
        writer.close(5)
    expected = [f"line {number}" for number in range(1000)]
    assert (tmp_path / "log").read_text().splitlines() == expected
    assert writer.lines_dropped == 0


def test_an_unread_pipe_blocks_no_put_and_what_does_not_fit_is_counted(pipe: Pipe) -> None:
    writer = LogWriter(pipe.write_end, 2 * BUFFER)
    line = b"x" * 999 + b"\n"
    began = time.monotonic()
    for _ in range(1000):
        writer.put(line, 1)
    assert time.monotonic() - began < 5
    assert not writer.flush(0.05)
    # Held are at most the pipe's 64 KiB, one batch that is being written, and the buffer.
    assert writer.lines_dropped >= 1000 - 5 * BUFFER // len(line)
    writer.close(0.01)
    written = pipe.read_until(lambda read: read.count(b"\n") + writer.lines_dropped >= 1000)
    assert set(written.splitlines(keepends=True)) == {line}
    assert written.count(b"\n") + writer.lines_dropped == 1000


def test_close_waits_for_an_unread_pipe_no_longer_than_told(pipe: Pipe) -> None:
    writer = LogWriter(pipe.write_end, 2**20)
    writer.put(b"x" * 2**19 + b"\n", 1)
    began = time.monotonic()
    writer.close(0.1)
    assert time.monotonic() - began < 5
    writer.put(b"too late\n", 1)
    assert writer.lines_dropped == 1


def test_lines_that_cannot_be_written_are_counted(pipe: Pipe) -> None:
    os.close(pipe.read_end)
    for descriptor in (pipe.write_end, -1):
        writer = LogWriter(descriptor, BUFFER)
        writer.put(b"one\ntwo\n", 2)
        assert writer.flush(5)
        assert writer.lines_dropped == 2
        writer.close(1)


def test_text_that_is_printed_goes_the_same_way(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as file:
        writer = LogWriter(file.fileno(), BUFFER)
        print("starting a model", file=WrittenText(writer))
        writer.close(5)
    assert (tmp_path / "log").read_text() == "starting a model\n"
