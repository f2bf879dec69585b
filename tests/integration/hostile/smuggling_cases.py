"""Requests that two HTTP parsers could read as different numbers of requests, by name.

Where `Parts.hidden` is sent, it is inside or behind something that a strict parser refuses or takes
for a body: it must never run. Where a case has no hidden request, what follows on the connection
must be read as itself.
"""

import json
from collections.abc import Callable

import msgspec
from tests.integration.cells.gateway_cell import CHAT
from tests.integration.hostile.hostile_caller import HTTP, V1, Caller
from tests.integration.hostile.hostile_heads import head


class Parts(msgspec.Struct, frozen=True):
    """What cases are made of. The first words of the three prompts are `own`, `hidden`, `next`."""

    caller: Caller

    def body(self, word: str) -> bytes:
        message = {"role": "user", "content": f"{word} please"}
        return json.dumps({"model": CHAT, "messages": [message]}).encode()

    @property
    def own(self) -> bytes:
        return self.body("own")

    @property
    def hidden(self) -> bytes:
        return self.caller.post("hidden", V1, self.body("hidden")).data

    @property
    def next(self) -> bytes:
        return self.caller.post("next", V1, self.body("next")).data

    def head(self, *lines: bytes, first: tuple[bytes, bytes, bytes] = (b"POST", V1, HTTP)) -> bytes:
        return head(*first, b"host: gateway", self.caller.key_line, *lines)


Case = Callable[[Parts], bytes]
_CHUNKED = b"transfer-encoding: chunked"


def _in_one_chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n0\r\n\r\n" % (len(data), data)


def _coding(*lines: bytes) -> Case:
    """An odd `transfer-encoding` beside a length that covers the hidden request too."""

    def build(parts: Parts) -> bytes:
        data = _in_one_chunk(parts.own) + parts.hidden
        return parts.head(b"content-length: %d" % len(data), *lines) + data

    return build


def _coding_alone(*lines: bytes) -> Case:
    """An odd `transfer-encoding` and no length."""
    return lambda parts: parts.head(*lines) + _in_one_chunk(parts.own) + parts.hidden


def _length(line: bytes) -> Case:
    """An odd length: `%d` is that of the body. The hidden request follows."""

    def build(parts: Parts) -> bytes:
        said = line % ((len(parts.own),) * line.count(b"%")) if b"%" in line else line
        return parts.head(said) + parts.own + parts.hidden

    return build


def _chunks(body: Callable[[bytes, bytes], bytes]) -> Case:
    """A chunked body, made of the own body and the hidden request."""
    return lambda parts: parts.head(_CHUNKED) + body(parts.own, parts.hidden)


def _valid_chunks(body: Callable[[bytes], bytes]) -> Case:
    """A chunked body in an unusual form that is valid; nothing is hidden."""
    return lambda parts: parts.head(_CHUNKED) + body(parts.own)


def _line(line: bytes) -> Case:
    """An odd header line that says how long the body is, and the hidden request behind it."""
    return lambda parts: parts.head(line) + _in_one_chunk(parts.own) + parts.hidden


def _te_cl(parts: Parts) -> bytes:
    """By its length the body is one line, and the hidden request is the next one."""
    body = _in_one_chunk(parts.hidden)
    return parts.head(b"content-length: %d" % (body.index(b"\n") + 1), _CHUNKED) + body


def _te_cl_http_1_0(parts: Parts) -> bytes:
    data = _in_one_chunk(parts.own) + parts.hidden
    lines = (b"content-length: %d" % len(data), _CHUNKED, b"connection: keep-alive")
    return parts.head(*lines, first=(b"POST", V1, b"HTTP/1.0")) + data


def _different_lengths(parts: Parts) -> bytes:
    short, long = len(parts.own), len(parts.own + parts.hidden)
    lines = (b"content-length: %d" % short, b"content-length: %d" % long)
    return parts.head(*lines) + parts.own + parts.hidden


def _page_with_body(method: bytes, target: bytes, *lines: bytes) -> Case:
    """A page that needs no body gets the hidden request as one."""

    def build(parts: Parts) -> bytes:
        length = b"content-length: %d" % len(parts.hidden)
        return parts.head(length, *lines, first=(method, target, HTTP)) + parts.hidden

    return build


def _after_close(parts: Parts) -> bytes:
    length = b"content-length: %d" % len(parts.own)
    return parts.head(length, b"connection: close") + parts.own + parts.hidden


def _connect(parts: Parts) -> bytes:
    return parts.head(first=(b"CONNECT", b"gateway:443", HTTP)) + parts.hidden


def _bare_line_feeds(parts: Parts) -> bytes:
    """A head whose lines end in LF alone, with a length that covers the hidden request."""
    data = parts.own + parts.hidden
    return parts.head(b"content-length: %d" % len(data)).replace(b"\r\n", b"\n") + data


def _in_the_model(parts: Parts) -> bytes:
    """Line ends in a path that names a model: they must not become lines of the engine's head."""
    model = b"%0d%0a%0d%0a" + parts.hidden.partition(b"\r\n")[0].replace(b" ", b"%20")
    target = parts.caller.path("run/") + model
    length = b"content-length: %d" % len(parts.own)
    return parts.head(length, first=(b"POST", target, HTTP)) + parts.own


def _with_label(line: bytes) -> Case:
    """A label that the gateway may pass on to the engine, with the start of a request in it."""

    def build(parts: Parts) -> bytes:
        return parts.head(b"content-length: %d" % len(parts.own), line) + parts.own

    return build


def _in_the_body(parts: Parts) -> bytes:
    """A whole request inside a JSON text is a text."""
    message = {"role": "user", "content": "own " + parts.hidden.decode()}
    body = json.dumps({"model": CHAT, "messages": [message], "user": "\r\n\r\n"}).encode()
    return parts.head(b"content-length: %d" % len(body)) + body


CASES: dict[str, Case] = {
    # A length and chunks at once.
    "cl_te": _coding(_CHUNKED),
    "te_cl": _te_cl,
    "cl_te_http_1_0": _te_cl_http_1_0,
    "cl_te_upper_case": _coding(b"TRANSFER-ENCODING: CHUNKED"),
    "cl_te_tab": _coding(b"transfer-encoding:\tchunked"),
    "cl_te_empty": _coding(b"transfer-encoding: ,"),
    "cl_te_identity": _coding(b"transfer-encoding: identity"),
    "cl_te_unknown": _coding(b"transfer-encoding: xchunked"),
    "cl_te_underscore": _coding(b"transfer_encoding: chunked"),
    "cl_te_folded": _coding(b"transfer-encoding:\r\n chunked"),
    "cl_te_in_a_fold": _coding(b"x: y\r\n transfer-encoding: chunked"),
    "cl_te_behind_bare_lf": _coding(b"x: y\ntransfer-encoding: chunked"),
    "cl_te_behind_bare_cr": _coding(b"x: y\rtransfer-encoding: chunked"),
    # Codings that are not quite `chunked`.
    "te_te": _coding_alone(_CHUNKED, b"transfer-encoding: cow"),
    "te_chunked_not_last": _coding_alone(b"transfer-encoding: chunked, identity"),
    "te_space_before_colon": _coding_alone(b"transfer-encoding : chunked"),
    "te_vertical_tab": _coding_alone(b"transfer-encoding: \x0bchunked"),
    "te_nul": _coding_alone(b"transfer-encoding: chunked\x00"),
    "te_quoted": _coding_alone(b'transfer-encoding: "chunked"'),
    "te_parameter": _coding_alone(b"transfer-encoding: chunked;q=1"),
    "te_nul_in_name": _line(b"transfer-\x00encoding: chunked"),
    # Lengths that are not quite numbers.
    "cl_cl_different": _different_lengths,
    "cl_list": _length(b"content-length: %d, %d"),
    "cl_plus": _length(b"content-length: +%d"),
    "cl_negative": _length(b"content-length: -%d"),
    "cl_hexadecimal": _length(b"content-length: 0x%x"),
    "cl_fraction": _length(b"content-length: %d.0"),
    "cl_space_inside": _length(b"content-length: %d 0"),
    "cl_space_before_colon": _length(b"content-length : %d"),
    "cl_nul": _length(b"content-length: %d\x00"),
    "cl_overflow": _length(b"content-length: 18446744073709551616"),
    "cl_empty": _length(b"content-length:"),
    "cl_not_ascii": _length(b"content-length: \xb9"),
    # Chunks whose ends can be read in two ways.
    "chunk_prefix": _chunks(lambda own, hidden: b"0x" + _in_one_chunk(own) + hidden),
    "chunk_negative": _chunks(lambda own, hidden: b"-" + _in_one_chunk(own) + hidden),
    "chunk_plus": _chunks(lambda own, hidden: b"+" + _in_one_chunk(own) + hidden),
    "chunk_space": _chunks(lambda own, hidden: b" " + _in_one_chunk(own) + hidden),
    "chunk_no_size": _chunks(lambda own, hidden: b"\r\n" + own + b"\r\n0\r\n\r\n" + hidden),
    "chunk_overflow": _chunks(
        lambda own, hidden: b"1%016x\r\n%b\r\n0\r\n\r\n" % (len(own), own) + hidden
    ),
    "chunk_huge": _chunks(lambda own, hidden: b"7fffffffffffffff\r\n" + own + hidden),
    "chunk_too_long": _chunks(
        lambda own, hidden: b"%x\r\n%b%b\r\n0\r\n\r\n" % (len(own), own, hidden)
    ),
    "chunk_bare_lf": _chunks(lambda own, hidden: b"%x\n%b\n0\n\n%b" % (len(own), own, hidden)),
    "chunk_bare_cr": _chunks(lambda own, hidden: b"%x\r%b\r0\r\r%b" % (len(own), own, hidden)),
    "chunk_extension_lf": _chunks(
        lambda own, hidden: b"%x;a\nb\r\n%b\r\n0\r\n\r\n" % (len(own), own) + hidden
    ),
    "chunk_extension_quoted_end": _chunks(
        lambda own, hidden: b'%x;a="\r\n%b\r\n0\r\n\r\n"' % (len(own), own) + hidden
    ),
    "chunk_end_without_line": _chunks(
        lambda own, hidden: b"%x\r\n%b\r\n0\r\n" % (len(own), own) + hidden
    ),
    # The last coding is `chunked`: where the body ends is certain.
    "te_cow_chunked": lambda parts: (
        parts.head(b"transfer-encoding: cow", _CHUNKED) + _in_one_chunk(parts.own)
    ),
    "chunk_trailers": _valid_chunks(
        lambda own: _in_one_chunk(own)[:-2] + b"content-length: 999\r\n" + _CHUNKED + b"\r\n\r\n"
    ),
    "chunk_upper_case": _valid_chunks(lambda own: b"%X\r\n%b\r\n00000\r\n\r\n" % (len(own), own)),
    # Bodies where none is expected, and other ways to leave a request.
    "get_with_body": _page_with_body(b"GET", b"/v1/models"),
    "get_with_body_expected": _page_with_body(b"GET", b"/v1/models", b"expect: 100-continue"),
    "delete_with_body": _page_with_body(b"DELETE", b"/v1/jobs/none"),
    "unknown_path_with_body": _page_with_body(b"POST", b"/nothing"),
    "upgrade_with_body": _page_with_body(
        b"GET", b"/v1/models", b"connection: upgrade", b"upgrade: h2c"
    ),
    "connect": _connect,
    "behind_close": _after_close,
    "bare_lf_head": _bare_line_feeds,
    # Towards the engine.
    "model_with_line_ends": _in_the_model,
    "request_id_with_cr": _with_label(b"x-request-id: a\rPOST /v1/chat/completions HTTP/1.1"),
    "session_with_tab": _with_label(b"x-session-id: a\tPOST /v1/chat/completions HTTP/1.1"),
    "hop_by_hop_length": _with_label(b"connection: content-length, keep-alive"),
    "request_in_the_body": _in_the_body,
}  # fmt: skip
