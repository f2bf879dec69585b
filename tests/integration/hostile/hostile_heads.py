"""Heads: methods, targets, versions, header lines and body framings that no client should send."""

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

_METHODS = (
    b"GET", b"HEAD", b"PUT", b"DELETE", b"PATCH", b"OPTIONS", b"TRACE", b"CONNECT", b"get", b"post",
    b"PRI", b"M-SEARCH", b"QUERY", b"LOCK", b"POSTT", b"P", b"", b" POST", b"PO ST", b"\x00",
    b"POST\t", b"\xff\xfe", b"A" * 300,
)  # fmt: skip
_VERSIONS = (
    b"HTTP/1.1", b"HTTP/1.0", b"HTTP/0.9", b"HTTP/2.0", b"HTTP/1.2", b"HTTP/3", b"HTTP/1.10",
    b"http/1.1", b"HTTP/1", b"HTTP/", b"HTTP/1.1 ", b" HTTP/1.1", b"", b"ICE/1.0", b"RTSP/1.0",
    b"HTTP/1.1 x", b"HTTP/99999999999.1", b"\x00",
)  # fmt: skip
ODD_TARGETS = (
    b"/", b"//", b"///v1/models", b"/v1//models", b"/v1/../v1/models", b"/v1/./models", b"/.." * 50,
    b"/v1/chat/completions/", b"/v1/chat/completions//", b"/v1/chat/completions?", b"*", b"?", b"#",
    b"", b"/v1/chat/completions?%", b"/v1/chat/completions#x", b"/v1/chat%2fcompletions",
    b"/V1/CHAT", b"v1", b"/v1/chat/completions%00", b"/v1/models/%00", b"/v1/models/%ff%fe",
    b"/v1/models/%", b"/v1/models/%zz", b"/v1/models/%2e%2e%2f", b"/v1/models/\xc3\xa9",
    b"/v1/models/\xff", b"/v1/models/\x7f", b"/\x01", b"/v1/models/" + b"a" * 5000,
    b"/v1/models/" + b"a/" * 3000, b"/" + b"%41" * 5000, b"/\\", b"/;x=y", b"http://x/v1/models",
    b"http://x/v1/chat/completions", b"http://", b"http://[/", b"http://[::1]/v1/models",
    b"https://u:p@x:1/v1/models", b"x:80", b"x", b"//x/v1/models", b"ftp://x/",
    b"/v1/models?" + b"a=1&" * 3000, b"/v1/models?" + b"%ff=%fe&", b"/v1/models?a=\xff",
    b"/v1/models?\x01", b"/openapi.json/..", b"/healthz%20", b"/v1/models ", b"/v1/models /x",
    b"/client/v4/accounts/", b"/client/v4/accounts//ai/run/x", b"/client/v4/accounts/x/ai/run",
    b"/client/v4/accounts/%2F/ai/run/%2F", b"/client/v4/accounts/x/ai/run//",
    b"/client/v4/accounts/x/ai/run/\xff", b"/client/v4/accounts/x/ai/run/%",
    b"/client/v4/accounts/x/ai/runx", b"/client/v4/accounts/x/y/ai/run/z",
    b"/client/v4/accounts/ai/run", b"/client/v4/accounts/x/ai/v1/models", b"/client/v4",
    b"/client/v4/accounts/x/ai/v1/chat/completions/", b"/client/v4/accounts/x/ai/models/search",
    b"/client/v4/accounts/x/ai/models/schema?model=%ff", b"/client/v4/accounts/%00/ai/run/%00",
)  # fmt: skip
UPGRADES = (
    b"connection: upgrade\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAoAAA",
    b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13",
    b"connection: upgrade\r\nupgrade: TLS/1.0",
)
ODD_LINES = (
    b"host", b"host:", b": x", b":", b" host: x", b"host : x", b"ho st: x", b"h\xffst: x",
    b"h\x00: x", b"x: \x00", b"x: \xff", b"x: \x7f", b"x: a\rb", b"x: a\nb: c", b"x: y\r\n folded",
    b"x: y\r\n\tfolded", b"\tx: y", b"x" * 9000 + b": y", b"x: " + b"y" * 9000, b"host: [::1",
    b"host: x\r\nhost: y", b"host: " + b"h" * 3000, b"host: a/b?c#d@e", b"host: \xff",
    b"content-encoding: gzip", b"content-encoding: br, gzip", b"content-encoding: identity",
    b"content-encoding: \xff", b"content-type: text/plain", b"content-type:",
    b"content-type: application/json; charset=utf-16", b"content-type: multipart/form-data",
    b"accept: \xff", b"connection: close", b"connection: keep-alive, close", b"connection: \xff",
    b"connection:", b"keep-alive: 0",
    *UPGRADES, b"upgrade: websocket", b"expect: 100-continue", b"expect: 200-ok",
    b"expect: \xff", b"te: trailers", b"expect: 100-continue\r\nexpect: 100-continue",
    b"trailer: authorization", b"range: bytes=0-,0-,0-", b"if-match: *", b"x-request-id: \xff\xfe",
    b"x-request-id: " + b"r" * 5000, b"x-request-id: a\tb", b"session-id: \xff\x7f",
    b"x-session-affinity: " + b"s" * 5000, b"x-penstock-reject-if-busy: true",
    b"x-penstock-reject-if-busy: \xff", b"origin: https://console.example", b"origin: null",
    b"origin: \xff", b"access-control-request-method: POST",
    b"origin: https://console.example\r\naccess-control-request-headers: \xff",
    b"x-forwarded-for: ::1, x", b"forwarded: for=\"_x\"", b"x-http-method-override: DELETE",
    b"cookie: " + b"a=b; " * 500, b"proxy-connection: x", b"max-forwards: 0",
    b"authorization: Bearer x\r\nauthorization: Bearer y", b"\x00", b"\xff" * 40,
    b"x-a: b\r\n" * 300 + b"x-b: c",
)  # fmt: skip
_FRAMINGS = (
    # What is said about the body, and whether it is sent in chunks. `%d` is its true length.
    (b"content-length: %d", "as is"), (b"Content-Length:%d", "as is"),
    (b"content-length: %d ", "as is"), (b"content-length: 0", "as is"),
    (b"content-length: 3", "as is"), (b"content-length:", "as is"),
    (b"content-length: -1", "as is"), (b"content-length: +%d", "as is"),
    (b"content-length: 0x10", "as is"), (b"content-length: %d, %d", "as is"),
    (b"content-length: 1e2", "as is"), (b"content-length: \xb9", "as is"),
    (b"content-length: 99999999999999999999999", "as is"),
    (b"content-length: 9223372036854775807", "as is"), (b"content-length: 40000000", "as is"),
    (b"content-length: %d\r\ncontent-length: %d", "as is"),
    (b"content-length: %d\r\ncontent-length: 5", "as is"), (b"content-length : %d", "as is"),
    (b"x: y", "as is"), (b"content-length: %d\r\ntransfer-encoding: chunked", "chunks"),
    (b"transfer-encoding: chunked", "chunks"),
    (b"transfer-encoding: chunked\r\ncontent-length: %d", "chunks"),
    (b"transfer-encoding: chunked", "as is"), (b"Transfer-Encoding: CHUNKED", "chunks"),
    (b"transfer-encoding: gzip, chunked", "chunks"),
    (b"transfer-encoding: chunked, gzip", "chunks"), (b"transfer-encoding: identity", "as is"),
    (b"transfer-encoding: chunked, chunked", "chunks"), (b"transfer-encoding: xchunked", "chunks"),
    (b"transfer-encoding: \x0bchunked", "chunks"), (b"transfer-encoding:\tchunked", "chunks"),
    (b"transfer-encoding: chunked\r\ntransfer-encoding: identity", "chunks"),
    (b"transfer-encoding:", "as is"), (b"transfer_encoding: chunked", "chunks"),
    (b"transfer-encoding : chunked", "chunks"), (b"transfer-encoding: chunked", "one by one"),
    (b"transfer-encoding: chunked", "bad size"), (b"transfer-encoding: chunked", "huge size"),
    (b"transfer-encoding: chunked", "negative size"), (b"transfer-encoding: chunked", "extensions"),
    (b"transfer-encoding: chunked", "trailers"), (b"transfer-encoding: chunked", "bare newlines"),
    (b"transfer-encoding: chunked", "short chunk"), (b"transfer-encoding: chunked", "long chunk"),
    (b"transfer-encoding: chunked", "no end"), (b"transfer-encoding: chunked", "spaces"),
    (b"transfer-encoding: chunked", "key in a trailer"),
)  # fmt: skip
_ENDS = (b"\r\n", b"\r\n", b"\r\n", b"\n", b"\r", b"\r\r\n", b"\n\r", b"\x0b\r\n", b" \r\n")

methods: SearchStrategy[bytes] = st.sampled_from(_METHODS)
versions: SearchStrategy[bytes] = st.sampled_from(_VERSIONS)
lines: SearchStrategy[bytes] = st.one_of(
    st.sampled_from(ODD_LINES),
    st.sampled_from(ODD_LINES),
    st.builds(b"%b: %b".__mod__, st.tuples(st.binary(max_size=8), st.binary(max_size=20))),
)
targets: SearchStrategy[bytes] = st.one_of(
    st.sampled_from(ODD_TARGETS),
    st.sampled_from(ODD_TARGETS),
    st.binary(min_size=1, max_size=30).map(lambda tail: b"/" + tail),
    st.text(max_size=8).map(lambda tail: b"/v1/models/" + tail.encode("utf-8", "surrogatepass")),
)
_framings = st.sampled_from(_FRAMINGS)


@st.composite
def framed(draw: DrawFn, body: bytes) -> tuple[bytes, bytes]:
    """What the head says about the body, and the body as it is sent."""
    said, how = draw(_framings)
    count = said.count(b"%d")
    line = said % ((len(body),) * count) if count else said
    return line, chunked(body, how)


def chunked(body: bytes, how: str = "chunks") -> bytes:
    """The body in chunks; `how` says what is wrong with them."""
    if how == "as is":
        return body
    if how == "one by one":
        return b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    whole = b"%x\r\n%b\r\n" % (len(body), body)
    odd_ones = {
        "bad size": b"zz\r\n" + body + b"\r\n0\r\n\r\n",
        "huge size": b"fffffffffffffffff\r\n" + body + b"\r\n0\r\n\r\n",
        "negative size": b"-5\r\n" + body + b"\r\n0\r\n\r\n",
        "extensions": b"%x;a=b;%b\r\n%b\r\n0;x\r\n\r\n" % (len(body), b"e" * 2000, body),
        "trailers": whole + b"0\r\nx-trailer: y\r\n" + b"content-length: 5\r\n\r\n",
        "key in a trailer": whole + b"0\r\nauthorization: Bearer nobody\r\n\r\n",
        "bare newlines": b"%x\n%b\n0\n\n" % (len(body), body),
        "short chunk": b"%x\r\n%b\r\n0\r\n\r\n" % (max(len(body) - 3, 1), body),
        "long chunk": b"%x\r\n%b\r\n0\r\n\r\n" % (len(body) + 3, body),
        "no end": whole,
        "spaces": b" %x \r\n%b\r\n0\r\n\r\n" % (len(body), body),
    }
    return odd_ones.get(how, whole + b"0\r\n\r\n")


def head(
    method: bytes, target: bytes, version: bytes, *fields: bytes, end: bytes = b"\r\n"
) -> bytes:
    """A head of any parts, with any line ends."""
    first = b" ".join(part for part in (method, target, version) if part)
    return end.join([first, *fields, b"", b""])


ends: SearchStrategy[bytes] = st.sampled_from(_ENDS)
