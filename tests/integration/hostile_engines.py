"""Engines that misbehave: what the scripted engine is told to do wrong, and raw answers it gives.

None of these ends the engine's process; what kills one is tested elsewhere.
"""

import base64
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

_JSON = b"content-type: application/json\r\n"
_EVENTS = b"content-type: text/event-stream\r\n"
_OK = b"HTTP/1.1 200 OK\r\n"
_CHUNK = (
    b'data: {"id":"a","object":"chat.completion.chunk","created":1,"model":"m","choices":'
    b'[{"index":0,"delta":{"content":"%b"},"finish_reason":null}]%b}\n\n'
)
_DONE = b"data: [DONE]\n\n"
_USAGE = b',"usage":{"prompt_tokens":%b,"completion_tokens":%b,"total_tokens":2}'
_MESSAGE = b'{"choices":[{"index":0,"message":{"role":"assistant","content":%b}}]%b}'


def _whole(body: bytes, *lines: bytes, status: bytes = b"200 OK") -> bytes:
    head = b"".join(lines) or _JSON
    return b"HTTP/1.1 %b\r\n%bcontent-length: %d\r\n\r\n%b" % (status, head, len(body), body)


def _stream(*events: bytes) -> bytes:
    """Framed by the connection's end, which HTTP allows."""
    return _OK + _EVENTS + b"connection: close\r\n\r\n" + b"".join(events)


def _deep(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


_RAW = (
    b"", b"\r\n\r\n", b"HTTP", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/9.9 200 OK\r\n\r\n{}",
    b"HTTP/1.1 999 What\r\ncontent-length: 0\r\n\r\n", b"HTTP/1.1 0 Nothing\r\ncontent-length: 0\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n\x00\x00\x00",
    b"HTTP/1.1 100 Continue\r\n\r\n" * 200, b"HTTP/1.1 100 Continue\r\n\r\n" * 3 + _whole(b"{}"),
    b"HTTP/1.1 204 No Content\r\n\r\n", b"HTTP/1.1 304 Not Modified\r\n\r\n", b"HTTP/1.1 302 Found\r\nlocation: /\r\n\r\n",
    _whole(b""), _whole(b"null"), _whole(b"[]"), _whole(b'"x"'), _whole(b"{}"), _whole(b"5"), _whole(b"{" * 10),
    _whole(_deep(500)), _whole(_deep(5000)), _whole(b'{"choices":' + _deep(5000) + b"}"), _whole(b"\xff\xfe\x00"),
    _whole(b'{"choices":[]}'), _whole(b'{"choices":null}'), _whole(b'{"choices":[{}]}'), _whole(b'{"choices":[5]}'),
    _whole(_MESSAGE % (b'"\xff\xfe"', b"")), _whole(_MESSAGE % (b'"\xed\xa0\x80"', b"")), _whole(_MESSAGE % (b"5", b"")),
    _whole(_MESSAGE % (b'"x"', b',"usage":5')), _whole(_MESSAGE % (b'"x"', _USAGE % (b"9" * 40, b"1"))),
    _whole(_MESSAGE % (b'"x"', _USAGE % (b"-5", b"-5"))), _whole(_MESSAGE % (b'"x"', _USAGE % (b"1.5", b"null"))),
    _whole(_MESSAGE % (b'"' + _deep(3000) + b'"', b"")), _whole(_MESSAGE % (b'"{\\"a\\":1}"', b"")),
    _whole(b"{}", b"x: y\r\n", b"content-length: 2\r\n"), _whole(b"{}", b"content-length: 5\r\n"), _whole(b"{}", _JSON * 500),
    _OK + _JSON + b"content-length: 500\r\n\r\n{}", _OK + _JSON + b"content-length: -1\r\n\r\n{}", _OK + _JSON + b"\r\n{}",
    _OK + _JSON + b"transfer-encoding: chunked\r\n\r\nzz\r\n", _OK + _JSON + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n",
    _OK + _JSON + b"transfer-encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", _whole(b"{}", _EVENTS), _whole(b"{}") * 3,
    _whole(b"\x1f\x8b\x08", _JSON + b"content-encoding: gzip\r\n"), _OK + b"x: " + b"y" * 90_000 + b"\r\n\r\n", b"\x16\x03\x01",
    _whole(b'{"error":{"message":"\xff"}}', status=b"400 Bad"), _whole(b"\xff", status=b"400 Bad"), _whole(b"", status=b"400 Bad"),
    _whole(b'{"error":{"message":5}}', status=b"400 Bad"), _whole(_deep(5000), status=b"422 No"), _whole(b"[]", status=b"404 No"),
    _whole(b'{"error":"x"}', status=b"400 Bad"), _whole(b'{"message":"' + b"m" * 9000 + b'"}', status=b"413 No"),
    _whole(b'{"error":{"message":"m","param":{"a":1}}}', status=b"400 Bad"), _whole(b"{}", status=b"401 No"),
    _stream(), _stream(_DONE), _stream(b"\n\n\n\n", _DONE), _stream(b"data: \n\n", _DONE), _stream(b"data:[DONE]\n\n"),
    _stream(b"data: {}\n\n", _DONE), _stream(b"data: null\n\n", _DONE), _stream(b"data: [1]\n\n", _DONE), _stream(b"\x00\xff\n\n"),
    _stream(_CHUNK % (b"a", b""), _CHUNK % (b"b", b"")), _stream(_CHUNK % (b"\xff\xfe", b""), _DONE), _stream(b"x" * 90_000),
    _stream(_CHUNK % (b"\xed\xa0\x80", b""), _DONE), _stream(_CHUNK % (b"a", _USAGE % (b"9" * 40, b"1")), _DONE),
    _stream(_CHUNK % (b"a", _USAGE % (b"-1", b"{}")), _DONE), _stream(_CHUNK % (b"a", b',"usage":{'), _DONE),
    _stream(_CHUNK % (b"a", b',"usage":{"a":{"b":{"c":1}}}'), _DONE), _stream(_CHUNK % (b"a", b',"usage":{"a":{{'), _DONE),
    _stream(b'data: {"choices":[],"usage":{"prompt_tokens":1e400}}\n\n', _DONE), _stream(b"data: " + _deep(3000) + b"\n\n", _DONE),
    _stream(b'data: {"choices":[{"index":' + b"9" * 5000 + b',"delta":{}}],"usage":{"prompt_tokens":1}}\n\n', _DONE),
    _stream(b'data: {"error":{"message":"\xff"}}\n\n', _DONE), _stream(b'data: {"error":null}\n\n', _DONE), _stream(_DONE, _DONE),
    _stream(b"event: x\nid: 1\nretry: 0\ndata: {}\n\n", _DONE), _stream(b"data: {}\r\n\r\n", b"data: [DONE]\r\n\r\n"),
    _stream(_DONE, _CHUNK % (b"late", b"")), _stream(b": comment\n\n" * 100, _DONE), _stream(b"data: {}\n" * 100, b"\n", _DONE),
    _stream(b'data: {"choices":[{"delta":{"tool_calls":[5,null,{}]}}]}\n\n', _DONE), _stream(b'data: {"choices":5}\n\n', _DONE),
    _stream(b'data: {"choices":[{"delta":{"reasoning":"' + b"r" * 40_000 + b'"}}]}\n\n', _DONE),
)  # fmt: skip

_counts = st.integers(0, 6)
_raw_scripts = st.sampled_from(_RAW).map(lambda raw: {"raw": base64.b64encode(raw).decode()})
_statuses = st.sampled_from([200, 201, 301, 400, 401, 403, 404, 408, 409, 413, 422, 429, 500, 501, 502, 503, 504, 599])
_lies: SearchStrategy[dict[str, Any]] = st.dictionaries(
    st.sampled_from(["prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details"]),
    st.sampled_from([None, -1, 0, 10**18, 1.5, "x", [], {}, {"cached_tokens": -5}, {"cached_tokens": "x"}]),
    min_size=1,
)

scripts: SearchStrategy[dict[str, Any]] = st.one_of(
    _raw_scripts,
    _raw_scripts,
    _raw_scripts,
    st.sampled_from(["garbage", "garbage_json", "cut_before_head", "no_done", "no_usage", "glue"]).map(
        lambda name: {name: True}
    ),
    st.tuples(st.sampled_from(["cut_after", "close_after", "error_after", "garbage_sse_after"]), _counts).map(
        lambda pair: {pair[0]: pair[1], "tokens": 5}
    ),
    st.builds(lambda count: {"stall_after": [count, None], "tokens": 5}, _counts),
    st.builds(lambda seconds: {"stall_before_head": seconds}, st.sampled_from([0.3, 30])),
    st.builds(lambda seconds: {"stall_before_first": seconds}, st.sampled_from([0.3, 30])),
    st.builds(lambda size: {"huge_line": size}, st.sampled_from([1000, 60_000, 70_000, 300_000])),
    st.builds(lambda size: {"split": size, "split_pause": 0, "tokens": 3}, st.integers(1, 40)),
    st.builds(lambda status, message: {"status": status, "message": message}, _statuses, st.text(max_size=9)),
    _lies.map(lambda lie: {"lie_usage": lie, "tokens": 3}),
)  # fmt: skip
