"""Requests with an odd head: method, version, lines, framing, target, query or key."""

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from tests.integration.cells.gateway_cell import CHAT, NATIVE
from tests.integration.hostile import hostile_heads as heads
from tests.integration.hostile.hostile_caller import HTTP, PLAIN_BODY, V1, Caller
from tests.integration.hostile.hostile_shot import Shot

PAGES = (
    b"/",
    b"/v1/models",
    b"/healthz",
    b"/readyz",
    b"/openapi.json",
    b"/v1/models/chat",
    b"/nothing",
)
_PARTS = ("method", "version", "lines", "end", "host")
_QUERIES = (
    b"", b"?", b"?page=1", b"?page=0", b"?page=-1", b"?page=x", b"?page=", b"?page=1&page=2",
    b"?page=%d9%a1", b"?page=1e3", b"?page=" + b"9" * 30, b"?page=0000000001" + b"9" * 30,
    b"?page=000000001" + b"9" * 5000, b"?per_page=99999999", b"?per_page=000000001" + b"9" * 40,
    b"?per_page=0", b"?search=%00", b"?search=%ff%fe", b"?search=" + b"a" * 5000, b"?search=\xff",
    b"?" + b"a=b&" * 2000, b"?author=%F0%9F%98%80&task=%", b"?task[]=x", b"?model=", b"?model=%ff",
    b"?model=chat", b"?model=" + b"a/" * 300, b"?model=%00", b"?model=native&model=chat",
    b"?&&&&===", b"?format=openrouter",
)  # fmt: skip
_PAGE_LINES = (
    b"origin: https://console.example", b"origin: \xff", b"access-control-request-method: POST",
    b"access-control-request-headers: \xff\xfe", b"accept: \xff", b"expect: 100-continue",
    b"range: bytes=0-1", b"host: [::1", b"if-none-match: *", b"x-request-id: \xff",
    b"content-encoding: gzip", b"connection: close", b"cookie: \xff",
)  # fmt: skip
_RUN_TAILS = (
    b"/ai/run/%b", b"/ai/run%b", b"/ai/v1/chat/completions%b", b"/ai/models/schema?model=%b", b"%b",
)  # fmt: skip


_whether = st.booleans()
_pages = st.sampled_from(PAGES)
_own_pages = st.sampled_from(
    ["", "", "models/search", "models/search", "models/schema", "v1/models"]
)
_queries = st.sampled_from(_QUERIES)
_wrongs = st.lists(st.sampled_from(_PARTS), min_size=1, max_size=2)
_odd_lines = st.lists(heads.lines, min_size=1, max_size=3)
_plain_targets = st.sampled_from([V1, *PAGES[:4]])
_few_plain_targets = st.lists(_plain_targets, max_size=4)
_upgrades = st.sampled_from(heads.UPGRADES)
_framed_methods = st.sampled_from([b"POST", b"POST", b"POST", b"GET", b"PUT"])
_framed_targets = st.sampled_from([V1, b"", b"/v1/models", b"/healthz"])
_framed_lines = st.sampled_from([(), (b"expect: 100-continue",), (b"connection: close",)])
_plain_versions = st.sampled_from([HTTP, HTTP, b"HTTP/1.0"])
_target_methods = st.sampled_from([b"POST", b"POST", b"GET", b"HEAD", b"OPTIONS", b"DELETE"])
_odd_accounts = st.sampled_from([b"<own>", b"<own>", b"<own>x", b"", b"%2e", b"%ff", b"x" * 300])
_run_tails = st.sampled_from(_RUN_TAILS)
_page_methods = st.sampled_from([b"GET", b"GET", b"GET", b"HEAD", b"OPTIONS", b"POST", b"PUT"])
_page_bodies = st.sampled_from([b"", b"", b"x", b"{}", b"y" * 90_000])
_some_page_lines = st.lists(st.sampled_from(_PAGE_LINES), max_size=2)


@st.composite
def odd_heads(draw: DrawFn, caller: Caller) -> Shot:
    """One or two things wrong with a head; the rest of the request is in order."""
    wrong, is_post = draw(_wrongs), draw(_whether)
    target = draw(_pages)
    if is_post:
        target = V1 if draw(_whether) else caller.path(f"run/{CHAT}")
    method = b"POST" if is_post else b"GET"
    if "method" in wrong:
        method = draw(heads.methods)
    version = draw(heads.versions) if "version" in wrong else HTTP
    lines = [caller.key_line] if "host" in wrong else [b"host: x", caller.key_line]
    if "lines" in wrong:
        lines += draw(_odd_lines)
    body = PLAIN_BODY if is_post else b""
    if is_post:
        lines.append(b"content-length: %d" % len(body))
    end = draw(heads.ends) if "end" in wrong else b"\r\n"
    data = heads.head(method, target, version, *lines, end=end) + body
    # A line that ends the head early makes the rest a second request, which is none: the gateway
    # hangs up on that, and whether the first one's answer is out by then is a matter of luck.
    is_cut = b"\r\n\r\n" in data[: len(data) - len(end + body)]
    is_head = method == b"HEAD"
    return Shot("odd heads", data, is_framed=False, is_head=is_head, may_be_dropped=is_cut)


@st.composite
def upgrades(draw: DrawFn, caller: Caller) -> Shot:
    """Requests in order that ask for another protocol, alone or behind others."""
    before, line = draw(_few_plain_targets), draw(_upgrades)
    target = draw(_plain_targets) if draw(_whether) else caller.path(f"run/{CHAT}")
    requests = [_plain(caller, each) for each in before] + [_plain(caller, target, line)]
    return Shot("upgrades", b"".join(requests), is_framed=False, answers=len(requests))


def _plain(caller: Caller, target: bytes, *lines: bytes) -> bytes:
    if target in PAGES:
        return caller.get("", target, *lines).data
    return caller.post("", target, PLAIN_BODY, *lines).data


@st.composite
def odd_framings(draw: DrawFn, caller: Caller) -> Shot:
    """Lengths and chunks that contradict each other or the body."""
    said, body = draw(heads.framed(PLAIN_BODY))
    method, version, extra = draw(_framed_methods), draw(_plain_versions), draw(_framed_lines)
    target = draw(_framed_targets) or caller.path(f"run/{NATIVE}")
    data = heads.head(method, target, version, b"host: x", caller.key_line, said, *extra) + body
    return Shot("odd framings", data, is_framed=False, may_be_dropped=True)


@st.composite
def odd_targets(draw: DrawFn, caller: Caller) -> Shot:
    """Paths of all kinds, and odd accounts and models in the paths that have them."""
    method, target = draw(_target_methods), draw(heads.targets)
    if draw(_whether):
        account = draw(_odd_accounts).replace(b"<own>", caller.account.encode())
        target = b"/client/v4/accounts/" + account + draw(_run_tails) % target
    body = PLAIN_BODY if method == b"POST" else b""
    length = b"content-length: %d" % len(body)
    data = heads.head(method, target, HTTP, b"host: x", caller.key_line, length) + body
    return Shot("odd targets", data, is_framed=False, is_head=method == b"HEAD")


@st.composite
def odd_pages(draw: DrawFn, caller: Caller) -> Shot:
    """Pages with odd queries and headers, and a body that nobody asked for."""
    method, lines, body = draw(_page_methods), draw(_some_page_lines), draw(_page_bodies)
    own = draw(_own_pages)
    target = (caller.path(own) if own else draw(_pages)) + draw(_queries)
    lines = [*lines, b"content-length: %d" % len(body)]
    data = heads.head(method, target, HTTP, b"host: x", caller.key_line, *lines) + body
    return Shot("odd pages", data, is_head=method == b"HEAD")


def odd_keys(own: Caller, stranger: Caller, operator: Caller) -> SearchStrategy[Shot]:
    """Every way to say who one is, wrongly."""
    secret, nobody = own.secret, b"authorization: Bearer nobody"
    bearer = b"authorization: Bearer "
    fixed = (
        b"x: y", b"authorization:", b"authorization: ", b"authorization: Bearer", b"x-api-key:",
        bearer, b"authorization: bearer  " + secret, b"authorization: Basic " + secret,
        b"api-key: " + secret, b"authorization: " + secret, own.key_line + b"x",
        own.key_line[:-1], b"x-api-key: " + secret,
        bearer + secret.upper(), bearer + b"k" * 50_000, bearer + b"\xff\xfe", bearer + b"\x80",
        operator.key_line, stranger.key_line, nobody + b"\r\n" + own.key_line, b"cookie: key=x",
        own.key_line + b"\r\n" + nobody, own.key_line + b"\r\nx-api-key: nobody",
        own.key_line + b", Bearer x", b"proxy-authorization: Bearer " + secret, nobody,
    )  # fmt: skip
    junk = st.binary(min_size=1, max_size=40).map(
        lambda found: bearer + bytes(byte for byte in found if byte > 32 and byte != 127)
    )
    paths = [own.path(f"run/{CHAT}"), stranger.path(f"run/{CHAT}"), own.path("run")]
    length = b"content-length: %d" % len(PLAIN_BODY)

    def build(line: bytes, target: bytes) -> Shot:
        head = heads.head(b"POST", target, HTTP, b"host: x", line, length)
        return Shot("odd keys", head + PLAIN_BODY)

    lines = st.one_of(st.sampled_from(fixed), junk)
    return st.builds(build, lines, st.sampled_from([V1, *paths]))
