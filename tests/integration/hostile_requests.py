"""Whole hostile requests: an odd body, head, target or key, put together with all else in order."""

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from tests.integration import hostile_bodies as bodies
from tests.integration import hostile_heads as heads
from tests.integration.gateway_cell import ABSENT, CHAT, NATIVE, PLAIN, PRIVATE, prompt
from tests.integration.hostile_engines import scripts
from tests.integration.hostile_json import Pair, deep, key, obj, text
from tests.integration.hostile_shot import Shot

V1 = b"/v1/chat/completions"
_HTTP = b"HTTP/1.1"
_MODELS = (CHAT, CHAT, NATIVE, NATIVE, PLAIN)
_ODD_MODELS = (
    "", " ", "default", "x", "@cf/test/nobody", "@cf/test/chat ", "@CF/TEST/CHAT", "a//b", "/a", "a/", "\0", "é",
    "%2F", "..", "../../etc/passwd", "@cf/test/chat\n", "a" * 300, "a/" * 200, "\ud83d\ude00", "chat", PRIVATE, ABSENT,
)  # fmt: skip


class Caller:
    """Who fires: a key and its account, and the ways to put a request together with them."""

    def __init__(self, account: str, secret: str) -> None:
        self.account = account
        self.secret = secret
        self.key_line = b"authorization: Bearer " + secret.encode()

    def path(self, tail: str) -> bytes:
        return f"/client/v4/accounts/{self.account}/ai/{tail}".encode()

    def post(self, kind: str, target: bytes, body: bytes, *lines: bytes) -> Shot:
        """A request whose head is in order."""
        length = b"content-length: %d" % len(body)
        head = heads.head(b"POST", target, _HTTP, b"host: x", self.key_line, length, *lines)
        return Shot(kind, head + body)

    # Strategies

    def odd_chats(self) -> SearchStrategy[Shot]:
        """Every field of a chat, on both OpenAI surfaces."""
        targets = st.sampled_from([V1, self.path("v1/chat/completions")])
        base = _base_pairs().flatmap(bodies.spoiled_fields)
        return st.builds(lambda target, body: self.post("odd fields", target, body), targets, base)

    def odd_messages(self) -> SearchStrategy[Shot]:
        base = _base_pairs().flatmap(bodies.spoiled_messages)
        targets = st.sampled_from([V1, self.path(f"run/{CHAT}"), self.path(f"run/{NATIVE}")])
        return st.builds(lambda target, body: self.post("odd messages", target, body), targets, base)

    def mangled_bodies(self) -> SearchStrategy[Shot]:
        base = _base_pairs().flatmap(bodies.mangled)
        targets = st.sampled_from([V1, self.path(f"run/{CHAT}"), self.path("run")])
        return st.builds(lambda target, body: self.post("mangled", target, body), targets, base)

    def odd_runs(self) -> SearchStrategy[Shot]:
        """Workers AI's input: prompt or messages, with the model in the path or in the body."""
        return self._odd_run()

    @st.composite
    def _odd_run(draw: DrawFn, self: "Caller") -> Shot:  # type: ignore[misc]  # noqa: N805
        model = draw(st.sampled_from(_MODELS))
        said = draw(st.sampled_from([(key("prompt"), b'"hi"'), (key("messages"), text(prompt()))]))
        inner = draw(bodies.spoiled_fields([said, (key("stream"), draw(_streams))]))
        if draw(st.booleans()):
            tail = model.replace("/", draw(st.sampled_from(["/", "%2F"])))
            query = draw(st.sampled_from(["", "?rejectIfBusy=true", "?queueRequest=1", "?tags=%ff&&=", "?stream=1"]))
            return self.post("odd run", self.path(f"run/{tail}{query}"), inner)
        outer = draw(bodies.spoiled_fields([(key("model"), text(model)), (key("input"), inner)]))
        return self.post("odd run", self.path("run"), outer)

    def deep_bodies(self) -> SearchStrategy[Shot]:
        """Nested to every limit, in every place that is looked into."""
        return self._deep_body()

    @st.composite
    def _deep_body(draw: DrawFn, self: "Caller") -> Shot:  # type: ignore[misc]  # noqa: N805
        nest = draw(deep)
        shape = draw(st.sampled_from([
            b"%b", b'{"model":"%m","messages":%b}', b'{"model":"%m","messages":[%b]}', b'{"model":%b,"messages":[]}',
            b'{"model":"%m","messages":[{"role":"user","content":%b}]}', b'{"model":"%m","input":%b}',
            b'{"model":"%m","messages":[{"role":"user","content":[%b]}]}', b'{"model":"%m","input":{"messages":%b}}',
            b'{"model":"%m","messages":[{"role":"user","content":[{"type":"image_url","image_url":%b}]}]}',
            b'{"model":"%m","messages":[{"role":"user","content":[{"type":"file","file":%b}]}]}',
            b'{"model":"%m","messages":[{"role":"user","content":"x","tool_calls":%b}]}',
            b'{"model":"%m","messages":[{"role":"user","content":"x"}],"tools":[%b]}',
            b'{"model":"%m","messages":[{"role":"user","content":"x"}],"tools":[{"name":"x","y":%b}]}',
            b'{"model":"%m","messages":[{"role":"user","content":"x"}],"response_format":%b}',
            b'{"model":"%m","messages":[{"role":"user","content":"x"}],"response_format":'
            b'{"type":"json_schema","json_schema":{"schema":%b}}}',
            b'{"model":"%m","messages":[{"role":"user","content":"x"}],"stream_options":%b,"stream":true}',
            b'{"model":"%m","messages":[{"role":"user","content":"x"}],"unknown":%b}',
            b'{"model":"%m","messages":[{"role":"user","content":"x"}],"options":%b}', b'{"prompt":%b}',
        ]))  # fmt: skip
        model = draw(st.sampled_from([CHAT, NATIVE])).encode()
        body = shape.replace(b"%m", model).replace(b"%b", nest)
        target = draw(st.sampled_from([V1, self.path("run"), self.path(f"run/{model.decode()}")]))
        return self.post("deep", target, body)

    def odd_heads(self) -> SearchStrategy[Shot]:
        return self._odd_head()

    @st.composite
    def _odd_head(draw: DrawFn, self: "Caller") -> Shot:  # type: ignore[misc]  # noqa: N805
        """One or two things wrong with a head; the rest of the request is in order."""
        wrong = draw(st.sets(st.sampled_from(["method", "version", "lines", "end", "host"]), min_size=1, max_size=2))
        is_post = draw(st.booleans())
        body = _plain_body() if is_post else b""
        target = draw(st.sampled_from([V1, self.path(f"run/{CHAT}")] if is_post else PAGES))
        method = draw(heads.methods) if "method" in wrong else b"POST" if is_post else b"GET"
        version = draw(heads.versions) if "version" in wrong else _HTTP
        lines = [] if "host" in wrong else [b"host: x"]
        lines.append(self.key_line)
        if "lines" in wrong:
            lines += draw(st.lists(heads.lines, min_size=1, max_size=3))
        if is_post:
            lines.append(b"content-length: %d" % len(body))
        end = draw(heads.ends) if "end" in wrong else b"\r\n"
        data = heads.head(method, target, version, *lines, end=end) + body
        return Shot("odd head", data, is_framed=False, is_head=method == b"HEAD")

    def odd_framings(self) -> SearchStrategy[Shot]:
        return self._odd_framing()

    @st.composite
    def _odd_framing(draw: DrawFn, self: "Caller") -> Shot:  # type: ignore[misc]  # noqa: N805
        said, body = draw(heads.framed(_plain_body()))
        target = draw(st.sampled_from([V1, self.path(f"run/{NATIVE}"), b"/v1/models", b"/healthz"]))
        method = draw(st.sampled_from([b"POST", b"POST", b"POST", b"GET", b"PUT"]))
        extra = draw(st.sampled_from([[], [b"expect: 100-continue"], [b"connection: close"]]))
        version = draw(st.sampled_from([_HTTP, _HTTP, b"HTTP/1.0"]))
        data = heads.head(method, target, version, b"host: x", self.key_line, said, *extra) + body
        return Shot("odd framing", data, is_framed=False)

    def odd_targets(self) -> SearchStrategy[Shot]:
        return self._odd_target()

    @st.composite
    def _odd_target(draw: DrawFn, self: "Caller") -> Shot:  # type: ignore[misc]  # noqa: N805
        method = draw(st.sampled_from([b"POST", b"POST", b"GET", b"HEAD", b"OPTIONS", b"DELETE"]))
        target = draw(heads.target_bytes())
        if draw(st.booleans()):
            tails = [b"/ai/run/%b", b"/ai/run%b", b"/ai/v1/chat/completions%b", b"/ai/models/schema?model=%b", b"%b"]
            account = draw(st.sampled_from([self.account.encode(), b"%2e", b"", b"x" * 300, b"%ff", self.account.upper().encode()]))
            target = b"/client/v4/accounts/" + account + draw(st.sampled_from(tails)) % target
        body = _plain_body() if method == b"POST" else b""
        length = b"content-length: %d" % len(body)
        data = heads.head(method, target, _HTTP, b"host: x", self.key_line, length) + body
        return Shot("odd target", data, is_framed=False, is_head=method == b"HEAD")

    def odd_models(self) -> SearchStrategy[Shot]:
        """Names of models in bodies, where any text may stand."""
        names = st.one_of(st.sampled_from(_ODD_MODELS), st.text(max_size=30))
        pairs = names.map(lambda name: obj([(key("model"), text(name)), (key("messages"), text(prompt())), (key("input"), b"{}")]))
        targets = st.sampled_from([V1, self.path("run"), self.path("v1/chat/completions")])
        return st.builds(lambda target, body: self.post("odd model", target, body), targets, pairs)

    def odd_pages(self) -> SearchStrategy[Shot]:
        return self._odd_page()

    @st.composite
    def _odd_page(draw: DrawFn, self: "Caller") -> Shot:  # type: ignore[misc]  # noqa: N805
        """Pages with odd queries, methods and headers, and a body that nobody asked for."""
        method = draw(st.sampled_from([b"GET", b"GET", b"GET", b"HEAD", b"OPTIONS", b"POST", b"PUT"]))
        pages = [*PAGES, self.path("models/search"), self.path("models/schema"), self.path("v1/models")]
        target = draw(st.sampled_from(pages)) + draw(st.sampled_from(ODD_QUERIES))
        lines = [b"host: x", self.key_line, *draw(st.lists(st.sampled_from(PAGE_LINES), max_size=2))]
        body = draw(st.sampled_from([b"", b"", b"x", b"{}", b"y" * 90_000]))
        lines.append(b"content-length: %d" % len(body))
        data = heads.head(method, target, _HTTP, *lines) + body
        return Shot("odd page", data, is_head=method == b"HEAD")

    def faulty_engines(self) -> SearchStrategy[Shot]:
        return self._faulty_engine()

    @st.composite
    def _faulty_engine(draw: DrawFn, self: "Caller") -> Shot:  # type: ignore[misc]  # noqa: N805
        model = draw(st.sampled_from([CHAT, NATIVE]))
        is_stream = draw(st.booleans())
        fields: list[Pair] = [(key("messages"), text(prompt(draw(scripts))))]
        fields.append((key("stream"), text(is_stream)))
        if is_stream:
            options = {"include_usage": draw(st.booleans()), "continuous_usage_stats": draw(st.booleans())}
            fields.append((key("stream_options"), text(options)))
        if draw(st.booleans()):
            fields.append((key("n"), text(draw(st.sampled_from([2, 5])))))
        if draw(st.booleans()):
            fields.append((key("response_format"), b'{"type":"json_object"}'))
        target = draw(st.sampled_from([V1, self.path(f"run/{model}"), self.path("v1/chat/completions")]))
        shot = self.post("faulty engine", target, obj([(key("model"), text(model)), *fields]))
        return Shot(shot.kind, shot.data, is_engine_faulty=True)


PAGES = (b"/v1/models", b"/healthz", b"/readyz", b"/openapi.json", b"/v1/models/chat", b"/nothing")
ODD_QUERIES = (
    b"", b"?", b"?page=1", b"?page=0", b"?page=-1", b"?page=x", b"?page=", b"?page=1&page=2", b"?page=%d9%a1", b"?page=1e3",
    b"?page=" + b"9" * 30, b"?page=" + b"0" * 9 + b"1" + b"9" * 30, b"?page=000000001" + b"9" * 5000, b"?per_page=99999999",
    b"?per_page=000000001" + b"9" * 40, b"?per_page=0", b"?search=%00", b"?search=%ff%fe", b"?search=" + b"a" * 5000,
    b"?search=\xff", b"?" + b"a=b&" * 2000, b"?author=%F0%9F%98%80&task=%", b"?task[]=x", b"?model=", b"?model=%ff",
    b"?model=chat", b"?model=" + b"a/" * 300, b"?model=%00", b"?model=native&model=chat", b"?&&&&===", b"?format=openrouter",
)  # fmt: skip
PAGE_LINES = (
    b"origin: https://console.example", b"origin: \xff", b"access-control-request-method: POST", b"connection: close",
    b"access-control-request-headers: \xff\xfe", b"accept: \xff", b"expect: 100-continue", b"range: bytes=0-1", b"host: [::1",
    b"if-none-match: *", b"x-request-id: \xff", b"content-encoding: gzip", b"connection: upgrade\r\nupgrade: h2c", b"cookie: \xff",
)  # fmt: skip

_streams = st.sampled_from([b"true", b"false"])


def odd_keys(own: Caller, stranger: Caller, operator: str) -> SearchStrategy[Shot]:
    """Every way to say who one is, wrongly."""
    secret = own.secret.encode()
    lines = st.one_of(
        st.sampled_from([
            b"", b"authorization:", b"authorization: ", b"authorization: Bearer", b"authorization: Bearer ", b"x-api-key:",
            b"authorization: bearer  " + secret, b"authorization: Basic " + secret, b"authorization: " + secret,
            b"authorization: Bearer " + secret + b"x", b"authorization: Bearer " + secret[:-1], b"x-api-key: " + secret,
            b"authorization: Bearer " + secret.upper(), b"authorization: Bearer " + b"k" * 50_000, b"api-key: " + secret,
            b"authorization: Bearer \xff\xfe", b"authorization: Bearer \x80", b"authorization: Bearer " + operator.encode(),
            b"authorization: Bearer nobody\r\n" + own.key_line, own.key_line + b"\r\nauthorization: Bearer nobody",
            b"authorization: Bearer " + stranger.secret.encode(), own.key_line + b"\r\nx-api-key: nobody", b"cookie: key=x",
            b"authorization: Bearer " + secret + b", Bearer x", b"proxy-authorization: Bearer " + secret,
        ]),
        st.binary(min_size=1, max_size=40).map(
            lambda junk: b"authorization: Bearer " + bytes(byte for byte in junk if byte > 32 and byte != 127)
        ),
    )  # fmt: skip
    targets = st.sampled_from([V1, own.path(f"run/{CHAT}"), stranger.path(f"run/{CHAT}"), own.path("run")])
    body = _plain_body()

    def build(line: bytes, target: bytes) -> Shot:
        given = [line] if line else []
        length = b"content-length: %d" % len(body)
        return Shot("odd key", heads.head(b"POST", target, _HTTP, b"host: x", *given, length) + body)

    return st.builds(build, lines, targets)


def _base_pairs() -> SearchStrategy[list[Pair]]:
    return st.builds(
        lambda model, stream: [(key("model"), text(model)), (key("messages"), text(prompt())), (key("stream"), stream)],
        st.sampled_from(_MODELS),
        _streams,
    )


def _plain_body() -> bytes:
    return obj([(key("model"), text(CHAT)), (key("messages"), text(prompt()))])
