"""Answers that no engine should give, as the bytes it sends: not HTTP, not JSON, not events."""

_JSON = b"content-type: application/json\r\n"
_EVENTS = b"content-type: text/event-stream\r\n"
_CHUNKED = b"transfer-encoding: chunked\r\n\r\n"
_OK = b"HTTP/1.1 200 OK\r\n"
_DONE = b"data: [DONE]\n\n"


def _whole(body: bytes, *lines: bytes, status: bytes = b"200 OK") -> bytes:
    head = b"".join(lines) or _JSON
    return b"HTTP/1.1 %b\r\n%bcontent-length: %d\r\n\r\n%b" % (status, head, len(body), body)


def _refused(body: bytes, status: bytes = b"400 Bad Request") -> bytes:
    return _whole(body, status=status)


def _message(content: bytes, usage: bytes = b"") -> bytes:
    choice = b'{"index":0,"message":{"role":"assistant","content":%b}}' % content
    return _whole(b'{"choices":[%b]%b}' % (choice, usage))


def _stream(*events: bytes) -> bytes:
    """Framed by the connection's end, which HTTP allows."""
    return _OK + _EVENTS + b"connection: close\r\n\r\n" + b"".join(events)


def _chunk(content: bytes, usage: bytes = b"") -> bytes:
    choice = b'{"index":0,"delta":{"content":"%b"},"finish_reason":null}' % content
    return b'data: {"id":"a","object":"chat.completion.chunk","choices":[%b]%b}\n\n' % (
        choice,
        usage,
    )


def _usage(prompt: bytes, completion: bytes) -> bytes:
    return b',"usage":{"prompt_tokens":%b,"completion_tokens":%b}' % (prompt, completion)


def _deep(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


_NOT_HTTP = (
    b"", b"\r\n\r\n", b"HTTP", _OK, _OK + b"\r\n", b"HTTP/9.9 200 OK\r\n\r\n{}", b"\x16\x03\x01",
    b"HTTP/1.1 999 What\r\ncontent-length: 0\r\n\r\n",
    b"HTTP/1.1 0 No\r\ncontent-length: 0\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n\x00\x00",
    b"HTTP/1.1 100 Continue\r\n\r\n" * 200, b"HTTP/1.1 100 Continue\r\n\r\n" * 3 + _whole(b"{}"),
    b"HTTP/1.1 204 No Content\r\n\r\n", b"HTTP/1.1 304 Not Modified\r\n\r\n",
    b"HTTP/1.1 302 Found\r\nlocation: /\r\n\r\n", _OK + b"x: " + b"y" * 90_000 + b"\r\n\r\n",
    _OK + _JSON + b"content-length: 500\r\n\r\n{}", _OK + _JSON + b"content-length: -1\r\n\r\n{}",
    _OK + _JSON + b"\r\n{}", _OK + _JSON + _CHUNKED + b"zz\r\n",
    _OK + _JSON + _CHUNKED + b"2\r\n{}\r\n",
    _OK + _JSON + b"transfer-encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    _whole(b"{}") * 3, _whole(b"{}", b"content-length: 2\r\n"),
    _whole(b"{}", b"content-length: 5\r\n"), _whole(b"{}", _JSON * 500),
    _whole(b"\x1f\x8b\x08", _JSON + b"content-encoding: gzip\r\n"),
)  # fmt: skip
_NOT_CHAT = (
    _whole(b""), _whole(b"null"), _whole(b"[]"), _whole(b'"x"'), _whole(b"{}"), _whole(b"5"),
    _whole(b"{" * 10), _whole(_deep(500)), _whole(_deep(5000)), _whole(b"\xff\xfe\x00"),
    _whole(b'{"choices":%b}' % _deep(5000)), _whole(b'{"choices":[]}'), _whole(b'{"choices":null}'),
    _whole(b'{"choices":[{}]}'), _whole(b'{"choices":[5]}'), _whole(b"{}", _EVENTS),
    _message(b'"\xff\xfe"'), _message(b'"\xed\xa0\x80"'), _message(b"5"),
    _message(b'"{\\"a\\":1}"'), _message(b'"%b"' % _deep(3000)), _message(b'"x"', b',"usage":5'),
    _message(b'"x"', _usage(b"9" * 40, b"1")), _message(b'"x"', _usage(b"-5", b"-5")),
    _message(b'"x"', _usage(b"1.5", b"null")), _message(b'"x"', _usage(b"1", b"9" * 5000)),
)  # fmt: skip
_REFUSALS = (
    _refused(b'{"error":{"message":"\xff"}}'), _refused(b"\xff"), _refused(b""),
    _refused(b'{"error":{"message":5}}'), _refused(b'{"error":"x"}'), _refused(_deep(5000)),
    _refused(b'{"error":{"message":"m","param":{"a":1}}}'), _refused(b"[]", b"404 Not Found"),
    _refused(b'{"message":"%b"}' % (b"m" * 9000), b"413 Too Large"), _refused(b"{}", b"401 No"),
    _refused(b'{"error":{"message":"\\u0000\\ud83d\\ude00"}}', b"422 No"), _refused(b"", b"500 No"),
)  # fmt: skip
_NOT_EVENTS = (
    _stream(), _stream(_DONE), _stream(_DONE, _DONE), _stream(b"\n\n\n\n", _DONE),
    _stream(b"\x00\xff\n\n"), _stream(b"data: \n\n", _DONE), _stream(b"data:[DONE]\n\n"),
    _stream(b"data: {}\n\n", _DONE), _stream(b"data: null\n\n", _DONE),
    _stream(b"data: [1]\n\n", _DONE), _stream(b"x" * 90_000), _stream(_chunk(b"a"), _chunk(b"b")),
    _stream(_chunk(b"\xff\xfe"), _DONE), _stream(_chunk(b"\xed\xa0\x80"), _DONE),
    _stream(_chunk(b"a", _usage(b"9" * 40, b"1")), _DONE),
    _stream(_chunk(b"a", _usage(b"-1", b"{}")), _DONE), _stream(_chunk(b"a", b',"usage":{'), _DONE),
    _stream(_chunk(b"a", b',"usage":{"a":{"b":{"c":1}}}'), _DONE), _stream(_DONE, _chunk(b"late")),
    _stream(_chunk(b"a", b',"usage":{"a":{{'), _DONE), _stream(b": comment\n\n" * 100, _DONE),
    _stream(b'data: {"choices":[],"usage":{"prompt_tokens":1e400}}\n\n', _DONE),
    _stream(b"data: %b\n\n" % _deep(3000), _DONE), _stream(b'data: {"error":null}\n\n', _DONE),
    _stream(b'data: {"choices":[{"index":%b}],"usage":{}}\n\n' % (b"9" * 5000), _DONE),
    _stream(b'data: {"error":{"message":"\xff"}}\n\n', _DONE),
    _stream(b"data: {}\n" * 100, b"\n", _DONE),
    _stream(b"event: x\nid: 1\nretry: 0\ndata: {}\n\n", _DONE),
    _stream(b'data: {"choices":5}\n\n', _DONE),
    _stream(b"data: {}\r\n\r\n", b"data: [DONE]\r\n\r\n"),
    _stream(b'data: {"choices":[{"delta":{"tool_calls":[5,null,{}]}}]}\n\n', _DONE),
    _stream(b'data: {"choices":[{"delta":{"reasoning":"%b"}}]}\n\n' % (b"r" * 40_000), _DONE),
)  # fmt: skip
RAW_ANSWERS = _NOT_HTTP + _NOT_CHAT + _REFUSALS + _NOT_EVENTS
