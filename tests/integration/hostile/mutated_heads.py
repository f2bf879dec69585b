"""Heads as clients repeat them on a connection, and the same heads with one thing changed."""

import json
import random
from collections.abc import Callable

import msgspec
from tests.integration.cells.gateway_cell import CHAT, prompt
from tests.integration.hostile.hostile_caller import HTTP, V1, Caller
from tests.integration.hostile.hostile_heads import ODD_LINES, ODD_TARGETS, head

_ODD_BYTES = b'\x00\t\n\r "%,:;=\x7f\xff0159aZ'
_ODD_LENGTHS = (
    b"+%d", b"-%d", b"0%d", b"00000000000000000000%d", b"%d ", b" %d", b"\t%d", b"%d,%d", b"%d.0",
    b"0x%x", b"%d\x00", b"%d\xff", b"", b"99999999999999999999", b"18446744073709551616", b"%de0",
)  # fmt: skip
_ODD_VALUES = (
    b"", b" ", b"x", b"y" * 300, b"a b", b"a\tb", b"\xe9", b"\x00", b"%00", b"true", b"1", b"close",
    b"chunked", b"Bearer nobody",
)  # fmt: skip
_LINE_ENDS = (b"\n", b"\r", b"\r\r\n", b"\n\r", b"\r\n ", b" \r\n")

Mutation = Callable[[bytes, random.Random], bytes]


class Repeated(msgspec.Struct, frozen=True):
    """A request whose head a connection has sent before, but for its length and its session."""

    before: list[bytes]
    head: bytes
    body: bytes


def repeated(caller: Caller, source: random.Random) -> Repeated:
    """A head with headers that the gateway reads and some that it does not."""
    optional = [
        b"x-request-id: caller-%d" % source.randrange(100), b"x-penstock-workflow: nightly/build",
        b"accept: */*", b"user-agent: openai-python/1.0", b"content-type: application/json",
        b"x-stainless-retry-count: 0", b"connection: keep-alive", b"x-penstock-cost: 1",
    ]  # fmt: skip
    lines = [b"host: gateway", caller.key_line, *source.sample(optional, source.randint(0, 5))]
    session = source.random() < 0.5
    source.shuffle(lines)
    places = [source.randint(0, len(lines)) for _ in range(2)]
    asks = []
    for number in range(3):
        text = f"hello {'x' * source.randint(0, 200)}"
        stream = {"stream": True} if number == 2 and source.random() < 0.2 else {}
        body = json.dumps({"model": CHAT, "messages": prompt(text=text), **stream}).encode()
        written = list(lines)
        written.insert(places[0], b"content-length: %d" % len(body))
        if session:
            written.insert(places[1], b"x-session-id: s%d" % source.randrange(10**number))
        asks.append((head(b"POST", V1, HTTP, *written), body))
    *before, (last, body) = asks
    return Repeated([first + rest for first, rest in before], last, body)


def mutated(known: bytes, source: random.Random) -> bytes:
    """The head with one thing changed; sometimes with nothing changed."""
    return source.choice(_MUTATIONS)(known, source)


def pieces_of(head: bytes, body: bytes, source: random.Random) -> list[bytes]:
    """How the request is sent: at once, or cut, often where a header's value begins or ends."""
    data = head + body
    if source.random() < 0.5:
        return [data]
    marks = [at for at in range(1, len(head)) if head[at - 2 : at] == b": " or head[at] == 13]
    place = source.choice(marks) if marks and source.random() < 0.7 else None
    at = place or source.randrange(1, len(data))
    return [data[:at], data[at:]]


def _nothing(head: bytes, _: random.Random) -> bytes:
    return head


def _byte(head: bytes, source: random.Random) -> bytes:
    at = source.randrange(len(head))
    new = source.choice(_ODD_BYTES) if source.random() < 0.7 else source.randrange(256)
    return head[:at] + bytes([new]) + head[at + 1 :]


def _case(head: bytes, source: random.Random) -> bytes:
    at = source.randrange(len(head))
    return head[:at] + head[at : at + 8].swapcase() + head[at + 8 :]


def _insertion(head: bytes, source: random.Random) -> bytes:
    at = source.randrange(len(head))
    return head[:at] + bytes(source.choices(_ODD_BYTES, k=source.randint(1, 3))) + head[at:]


def _deletion(head: bytes, source: random.Random) -> bytes:
    at = source.randrange(len(head))
    return head[:at] + head[at + source.randint(1, 3) :]


def _line_end(head: bytes, source: random.Random) -> bytes:
    pieces = head.split(b"\r\n")
    at = source.randrange(1, len(pieces))
    end = source.choice(_LINE_ENDS)
    return b"\r\n".join(pieces[:at]) + end + b"\r\n".join(pieces[at:])


def _with_lines(head: bytes, change: Callable[[list[bytes]], None]) -> bytes:
    first, *lines = head[:-4].split(b"\r\n")
    change(lines)
    return b"\r\n".join([first, *lines, b"", b""])


def _doubled_line(head: bytes, source: random.Random) -> bytes:
    return _with_lines(
        head, lambda lines: lines.insert(source.randint(0, len(lines)), source.choice(lines))
    )


def _lost_line(head: bytes, source: random.Random) -> bytes:
    return _with_lines(head, lambda lines: lines.remove(source.choice(lines)))


def _other_order(head: bytes, source: random.Random) -> bytes:
    return _with_lines(head, source.shuffle)


def _odd_line(head: bytes, source: random.Random) -> bytes:
    line = source.choice(ODD_LINES)
    return _with_lines(head, lambda lines: lines.insert(source.randint(0, len(lines)), line))


def _odd_value(head: bytes, source: random.Random) -> bytes:
    def change(lines: list[bytes]) -> None:
        at = source.randrange(len(lines))
        name, _, value = lines[at].partition(b": ")
        if name == b"content-length":
            written = source.choice(_ODD_LENGTHS)
            length = int(value) + source.choice((0, 0, 1, -1))
            new = written % ((length,) * written.count(b"%")) if b"%" in written else written
        else:
            new = source.choice((*_ODD_VALUES, value + b" ", value[:-1], value + value))
        lines[at] = name + b": " + new

    return _with_lines(head, change)


def _odd_target(head: bytes, source: random.Random) -> bytes:
    return head.replace(V1, source.choice(ODD_TARGETS), 1)


_MUTATIONS: tuple[Mutation, ...] = (
    _nothing, _nothing, _byte, _byte, _case, _insertion, _insertion, _deletion, _deletion,
    _line_end, _doubled_line, _lost_line, _other_order, _odd_line, _odd_value, _odd_value,
    _odd_target,
)  # fmt: skip
