"""From headers and body to a request: who, which model, and what of it the path must know."""

import json

import msgspec
import pytest
from tests.unit.intake.read_samples import ALL, FULL, HELLO, KEY, model

from penstock.catalogue import Catalogue
from penstock.clock import new_id
from penstock.errors import (
    CostCapped,
    Error,
    Forbidden,
    InvalidRequest,
    MalformedModel,
    MissingBody,
    MissingCapability,
    Unauthenticated,
    UnknownModel,
)
from penstock.ingress.settings import IngressSettings
from penstock.intake.caller_headers import CallerHeaders
from penstock.intake.request_reader import RequestReader
from penstock.intake.routes import find_route
from penstock.metering import PriceBook
from penstock.policy import KeyMirror, PolicySettings
from penstock.records.account import Account, AccountId, Key, KeyId, Role
from penstock.records.model import Family, ModelId
from penstock.records.price import Prices
from penstock.records.request import InferenceRequest, RequestId
from penstock.store import Store, StoreSettings
from penstock.testing.manual_clock import ManualClock

CHAT = b"/v1/chat/completions"
A = b"/client/v4/accounts/acme"


REQUEST = new_id()
PLAIN = model("@cf/x/plain", Family.OPENAI)
NATIVE = model("@cf/x/native", Family.NATIVE, *ALL)


@pytest.fixture
def reader() -> RequestReader:
    mirror = KeyMirror(Store(StoreSettings(dsn="host=127.0.0.1")), ManualClock(), PolicySettings())
    mirror._cell_secret = b"a cell's secret"
    catalogue = Catalogue([FULL, PLAIN, NATIVE], default_model=FULL.id)
    return RequestReader(catalogue, mirror, PriceBook(catalogue.models), IngressSettings().intake)


def read(
    reader: RequestReader,
    target: bytes,
    body: object,
    headers: dict[bytes, bytes] | None = None,
    key: Key = KEY,
) -> InferenceRequest:
    raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
    caller = CallerHeaders(list((headers or {}).items()))
    return reader.read(RequestId(REQUEST), find_route(target), caller, key, raw)


def headers_of(**values: bytes) -> CallerHeaders:
    return CallerHeaders([(name.replace("_", "-").encode(), v) for name, v in values.items()])


@pytest.mark.parametrize(
    "value", [b"Bearer secret", b"bearer secret", b"BEARER secret", b"Bearer   secret "]
)
def test_key_is_read_from_authorization(value: bytes) -> None:
    assert headers_of(authorization=value).secret() == b"secret"


def test_key_is_read_from_x_api_key_when_there_is_no_bearer() -> None:
    assert headers_of(x_api_key=b"secret").secret() == b"secret"
    assert headers_of(x_api_key=b"secret", authorization=b"Basic eA==").secret() == b"secret"
    assert headers_of(x_api_key=b"other", authorization=b"Bearer secret").secret() == b"secret"


@pytest.mark.parametrize("value", [b"", b"Bearer", b"Bearer ", b"Basic eA==", b"secret"])
def test_request_without_a_key_is_unauthenticated(value: bytes) -> None:
    with pytest.raises(Unauthenticated):
        headers_of(authorization=value).secret()
    with pytest.raises(Unauthenticated):
        CallerHeaders([]).secret()


def test_session_is_the_first_header_that_names_one() -> None:
    assert headers_of(x_session_affinity=b"a", x_session_id=b"b", session_id=b"c").session() == b"a"
    assert headers_of(x_session_id=b"b", session_id=b"c").session() == b"b"
    assert headers_of(session_id=b"c").session() == b"c"
    assert headers_of(x_session_affinity=b"", session_id=b"c").session() == b"c"
    assert CallerHeaders([]).session() == b""


def test_sessions_label_is_cut_and_made_printable(reader: RequestReader) -> None:
    body = {"model": FULL.id, **HELLO}
    assert read(reader, CHAT, body, {b"session-id": b"\x80\x81x"}).labels.session == "x"
    assert read(reader, CHAT, body, {b"session-id": b"a" * 1000}).labels.session == "a" * 256


def test_callers_own_labels_are_cut_and_made_printable() -> None:
    assert headers_of(x_request_id=b"a" * 1000).caller_request_id() == "a" * 256
    assert headers_of(x_request_id=b"a\tb\x7f\x01c").caller_request_id() == "abc"


@pytest.mark.parametrize("encoding", [b"gzip", b"br", b"deflate", b"zstd", b"gzip, identity"])
def test_encoded_body_is_refused_by_name(encoding: bytes) -> None:
    with pytest.raises(InvalidRequest, match=encoding.decode()):
        headers_of(content_encoding=encoding).refuse_encoding()


def test_plain_body_is_not_refused() -> None:
    for headers in (CallerHeaders([]), headers_of(content_encoding=b"Identity")):
        headers.refuse_encoding()


def test_request_has_what_the_path_must_know(reader: RequestReader) -> None:
    body = {
        "model": FULL.id,
        **HELLO,
        "stream": True,
        "n": 2,
        "stream_options": {"include_usage": True},
    }
    request = read(reader, CHAT, body, {b"x-request-id": b"theirs", b"session-id": b"s1"})
    assert request.id == REQUEST
    assert (request.account, request.key, request.model) == ("acme", "k1", FULL)
    assert request.prompt.is_stream
    assert request.prompt.wants_usage
    assert not request.prompt.wants_continuous_usage
    assert (request.prompt.choices, request.labels.session, request.labels.caller_request_id) == (
        2,
        "s1",
        "theirs",
    )
    assert json.loads(bytes(request.prompt.body["messages"])) == HELLO["messages"]


def test_salt_is_the_accounts_own(reader: RequestReader) -> None:
    other = Key(KeyId("k2"), Role.RUNTIME, Account(AccountId("other"), "Other"))
    body = {"model": FULL.id, **HELLO}
    salts = [read(reader, CHAT, body, key=key).prompt.cache_salt for key in (KEY, other, KEY)]
    assert salts[0] == salts[2]
    assert salts[0] != salts[1]
    assert len(salts[0]) == 64


def test_session_falls_back_to_the_cache_key(reader: RequestReader) -> None:
    body = {"model": FULL.id, **HELLO, "prompt_cache_key": "c" * 1000}
    assert read(reader, CHAT, body).labels.session == "c" * 256
    assert read(reader, CHAT, body, {b"session-id": b"s"}).labels.session == "s"


def test_model_comes_from_path_or_body_and_default_has_a_name(reader: RequestReader) -> None:
    assert read(reader, CHAT, {"model": "default", **HELLO}).model is FULL
    assert read(reader, A + b"/ai/run/@cf%2Fx%2Fplain", HELLO).model is PLAIN
    body = {"model": NATIVE.id, "input": {"prompt": "hi"}}
    assert read(reader, A + b"/ai/run", body).model is NATIVE


@pytest.mark.parametrize(
    ("body", "kind", "param"),
    [
        (HELLO, InvalidRequest, "model"),
        ({"model": "", **HELLO}, InvalidRequest, "model"),
        ({"model": 5, **HELLO}, InvalidRequest, "model"),
        ({"model": "@cf/no/such", **HELLO}, UnknownModel, "model"),
        ({"model": "not a model!", **HELLO}, MalformedModel, "model"),
        (b"", MissingBody, None),
    ],
)
def test_request_without_a_known_model_is_refused(
    reader: RequestReader, body: object, kind: type[Error], param: str | None
) -> None:
    with pytest.raises(kind) as refused:
        read(reader, CHAT, body)
    assert refused.value.param == param


def test_account_in_the_path_must_be_the_keys(reader: RequestReader) -> None:
    read(reader, A + b"/ai/run/@cf/x/full", HELLO)
    with pytest.raises(Forbidden):
        read(reader, b"/client/v4/accounts/other/ai/run/@cf/x/full", HELLO)


def test_operator_key_may_not_infer(reader: RequestReader) -> None:
    with pytest.raises(Forbidden):
        read(reader, CHAT, {"model": FULL.id, **HELLO}, key=Key(KeyId("o"), Role.OPERATOR, None))


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


@pytest.mark.parametrize(
    ("fields", "capability", "param"),
    [
        ({"tools": [{"type": "function"}]}, "tools", "tools"),
        ({"response_format": {"type": "json_object"}}, "structured_output", "response_format"),
        ({"messages": [{"role": "user", "content": [IMAGE]}]}, "vision", "messages"),
    ],
)
def test_capability_that_the_model_lacks_is_named(
    reader: RequestReader, fields: dict[str, object], capability: str, param: str
) -> None:
    read(reader, CHAT, {"model": FULL.id, **HELLO, **fields})
    with pytest.raises(MissingCapability, match=f"`{capability}`") as refused:
        read(reader, CHAT, {"model": PLAIN.id, **HELLO, **fields})
    assert refused.value.param == param


@pytest.mark.parametrize(
    ("target", "options", "headers"),
    [
        (b"", {"rejectIfBusy": True}, {}),
        (b"?rejectIfBusy=true", {}, {}),
        (b"?rejectIfBusy=1", {"rejectIfBusy": False}, {}),
        (b"", {}, {b"x-penstock-reject-if-busy": b"true"}),
        (b"", {}, {b"x-penstock-reject-if-busy": b"1"}),
    ],
)
@pytest.mark.parametrize("path", [CHAT, A + b"/ai/v1/chat/completions", A + b"/ai/run/@cf/x/full"])
def test_options_come_three_ways(
    reader: RequestReader,
    path: bytes,
    target: bytes,
    options: dict[str, object],
    headers: dict[bytes, bytes],
) -> None:
    body = {"model": FULL.id, **HELLO, "options": options}
    assert read(reader, path + target, body, headers).terms.reject_if_busy
    assert not read(reader, path, {"model": FULL.id, **HELLO}).terms.reject_if_busy


@pytest.mark.parametrize("value", [b"false", b"0", b"", b"no"])
def test_options_that_say_no_are_no(reader: RequestReader, value: bytes) -> None:
    body = {"model": FULL.id, **HELLO}
    headers = {b"x-penstock-reject-if-busy": value}
    assert not read(reader, CHAT + b"?rejectIfBusy=" + value, body, headers).terms.reject_if_busy


@pytest.mark.parametrize("query", [b"?queueRequest=true", b""])
@pytest.mark.parametrize("path", [CHAT, A + b"/ai/v1/chat/completions"])
def test_queue_request_is_not_for_chat(reader: RequestReader, path: bytes, query: bytes) -> None:
    body = {"model": FULL.id, **HELLO, "options": {"queueRequest": not query}}
    with pytest.raises(InvalidRequest, match="queueRequest") as refused:
        read(reader, path + query, body)
    assert refused.value.param == "queueRequest"


def test_input_one_level_down_is_unwrapped_with_its_options(reader: RequestReader) -> None:
    body = {"model": FULL.id, "input": HELLO, "options": {"rejectIfBusy": True}}
    request = read(reader, A + b"/ai/run", body)
    assert set(request.prompt.body) == {"messages"}
    assert request.terms.reject_if_busy


@pytest.mark.parametrize("wrong", [{}, {"input": None}, {"input": []}, {"input": "hi"}])
def test_input_that_is_no_object_is_refused_with_param(
    reader: RequestReader, wrong: dict[str, object]
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read(reader, A + b"/ai/run", {"model": FULL.id, **wrong})
    assert refused.value.param == "input"


def test_native_stream_always_tells_its_usage_on_run_and_only_there(
    reader: RequestReader,
) -> None:
    body = {"model": NATIVE.id, **HELLO, "stream": True}
    assert read(reader, A + b"/ai/run/@cf/x/native", body).prompt.wants_usage
    assert not read(reader, A + b"/ai/v1/chat/completions", body).prompt.wants_usage


@pytest.mark.parametrize("size", [10, 200_000])
@pytest.mark.parametrize("path", [CHAT, A + b"/ai/run/@cf/x/full", A + b"/ai/run"])
def test_media_rules_hold_for_short_and_long_bodies_on_every_path(
    reader: RequestReader, path: bytes, size: int
) -> None:
    part = {"type": "image_url", "image_url": {"url": "http://127.0.0.1/x"}}
    messages = [{"role": "user", "content": [{"type": "text", "text": "x" * size}, part]}]
    body: dict[str, object] = {"model": FULL.id, "messages": messages}
    if path.endswith(b"/run"):
        body = {"model": FULL.id, "input": {"messages": messages}, **HELLO}
    with pytest.raises(InvalidRequest, match="data:"):
        read(reader, path, body)


@pytest.mark.parametrize("levels", [65, 900, 985, 5000])
@pytest.mark.parametrize("path", [CHAT, A + b"/ai/run/@cf/x/native", A + b"/ai/run"])
def test_deep_nesting_anywhere_is_refused(reader: RequestReader, path: bytes, levels: int) -> None:
    deep = b"[" * levels + b"]" * levels
    for name in (b"messages", b"tools", b"x", b"response_format", b"input", b"prompt", b"options"):
        field = b'"%s":%s' % (name, deep)
        plain = b"" if name in (b"messages", b"prompt") else b'"messages":[{"role":"user"}],'
        inner = b"{%s%s}" % (plain, field)
        body = b'{"model":"@cf/x/native","input":%s,%s%s}' % (inner, plain, field)
        with pytest.raises(Error):
            read(reader, path, body)


@pytest.mark.parametrize(
    ("sent", "session"),
    [
        ("a\tb\nc\r\0d", "abcd"),
        ("back\\slash \\N \\.", "back\\slash \\N \\."),
        ("🌊 naïve 日本", "🌊 naïve 日本"),
        ("\u2028\u200b\x85x", "x"),
        ("\t" * 300, ""),
    ],
)
def test_cache_key_becomes_a_session_that_breaks_no_line(
    reader: RequestReader, sent: str, session: str
) -> None:
    body = {"model": FULL.id, **HELLO, "prompt_cache_key": sent}
    assert read(reader, CHAT, body).labels.session == session


def test_lone_surrogate_is_not_json_and_is_refused(reader: RequestReader) -> None:
    body = b'{"model":"@cf/x/full","messages":[{"role":"user"}],"prompt_cache_key":"%s"}'
    for half in (b"\\ud800", b"\\udc00x", b"a\\ud83d", b"\\ud800\\ud800"):
        with pytest.raises(InvalidRequest):
            read(reader, CHAT, body % half)


def test_label_is_found_in_all_three_places(reader: RequestReader) -> None:
    body = {"model": FULL.id, **HELLO, "metadata": {"workflow": "in-body", "x": 1}}
    theirs = {b"cf-aig-metadata": b'{"workflow":"theirs"}'}
    ours = {**theirs, b"x-penstock-workflow": b"ours"}
    labels = [read(reader, CHAT, body, headers).labels.workflow for headers in (None, theirs, ours)]
    assert labels == ["in-body", "theirs", "ours"]


@pytest.mark.parametrize("metadata", [None, 5, "w", [], {"workflow": 5}, {"workflow": None}])
def test_metadata_of_another_kind_is_the_callers_own_business(
    reader: RequestReader, metadata: object
) -> None:
    assert (
        read(reader, CHAT, {"model": FULL.id, **HELLO, "metadata": metadata}).labels.workflow == ""
    )


def test_clients_retries_and_family_are_on_the_request(reader: RequestReader) -> None:
    body = {"model": FULL.id, "messages": [{"role": "system", "content": "é" * 5000}]}
    request = read(reader, CHAT, body, {b"x-stainless-retry-count": b"2"})
    assert request.labels.client_retry == 2
    assert len(request.labels.prompt_family) == 16
    assert read(reader, CHAT, {"model": FULL.id, **HELLO}).labels.client_retry is None


@pytest.mark.parametrize("path", [CHAT, A + b"/ai/run/@cf/x/priced"])
def test_cost_cap_shortens_upstream_or_refuses(path: bytes) -> None:
    priced = msgspec.structs.replace(
        FULL,
        id=ModelId("@cf/x/priced"),
        prices=(Prices(output_nanousd_per_mtok=10**9),),
        context_tokens=100_000,
    )
    catalogue = Catalogue([priced], default_model=priced.id)
    mirror = KeyMirror(Store(StoreSettings(dsn="host=127.0.0.1")), ManualClock(), PolicySettings())
    mirror._cell_secret = b"a cell's secret"
    book = PriceBook(catalogue.models)
    made = RequestReader(catalogue, mirror, book, IngressSettings().intake)
    body = {"model": priced.id, **HELLO}
    cap = {b"x-penstock-max-cost-usd": b"0.0001"}
    request = read(made, path, body, cap)
    assert request.terms.output_tokens_max == 100
    assert bytes(request.prompt.body["max_tokens"]) == b"100"
    assert "max_tokens" not in read(made, path, body).prompt.body
    with pytest.raises(CostCapped):
        read(made, path, {**body, "max_tokens": 101}, cap)
    assert read(made, path, {**body, "max_tokens": 100}, cap).terms.output_tokens_max == 100
    with pytest.raises(CostCapped):
        read(made, path, {**body, "n": 101}, cap)
