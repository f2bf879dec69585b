"""The chain and the session that a request is routed by: exact, and of one account alone."""

import msgspec
import pytest

from penstock.catalogue import Catalogue
from penstock.clock import new_id
from penstock.ingress.settings import IngressSettings
from penstock.intake.caller_headers import CallerHeaders
from penstock.intake.request_reader import RequestReader
from penstock.intake.routes import find_route
from penstock.metering import PriceBook
from penstock.policy import KeyMirror, PolicySettings
from penstock.records.account import Account, AccountId, Affinity, Key, KeyId, Role
from penstock.records.model import Capability, Family, Model, ModelId, Recipe
from penstock.records.request import InferenceRequest, RequestId
from penstock.store import Store, StoreSettings
from penstock.testing.manual_clock import ManualClock

CHAT = b"/v1/chat/completions"
FIRST, SECOND = (
    Model(
        id=ModelId(name),
        family=Family.OPENAI,
        context_tokens=1000,
        recipe=Recipe(command=("x",)),
        capabilities=frozenset(Capability),
        image_tokens_max=100,
    )
    for name in ("@cf/x/first", "@cf/x/second")
)
SYSTEM = {"role": "system", "content": "You fix bugs."}
HELLO = [SYSTEM, {"role": "user", "content": "hi"}]


def key(name: str, affinity: Affinity = Affinity.NEAR) -> Key:
    return Key(KeyId("k"), Role.RUNTIME, Account(AccountId(name), name, affinity=affinity))


ACME, OTHER = key("acme"), key("other")


@pytest.fixture(scope="module")
def reader() -> RequestReader:
    mirror = KeyMirror(Store(StoreSettings(dsn="host=127.0.0.1")), ManualClock(), PolicySettings())
    mirror._cell_secret = b"a cell's secret"
    catalogue = Catalogue([FIRST, SECOND], default_model=FIRST.id)
    settings = IngressSettings(prompt_bytes_per_token=3)
    return RequestReader(catalogue, mirror, PriceBook(catalogue.models), settings.intake)


def read(
    reader: RequestReader,
    body: dict[str, object] | None = None,
    headers: dict[bytes, bytes] | None = None,
    by: Key = ACME,
    path: bytes = CHAT,
) -> InferenceRequest:
    raw = msgspec.json.encode({"model": FIRST.id, "messages": HELLO, **(body or {})})
    caller = CallerHeaders(list((headers or {}).items()))
    return reader.read(RequestId(new_id()), find_route(path), caller, by, raw)


def session(
    reader: RequestReader, body: dict[str, object], *headers: tuple[bytes, bytes], by: Key = ACME
) -> int:
    return read(reader, body, dict(headers), by).placement.session_key


def test_first_name_of_a_session_wins(reader: RequestReader) -> None:
    headers = [(b"x-session-affinity", b"a"), (b"x-session-id", b"b"), (b"session-id", b"c")]
    body: dict[str, object] = {"prompt_cache_key": "d", "conversation": {"id": "e"}}
    found = [session(reader, body, *headers[n:]) for n in range(4)]
    found.append(session(reader, {"conversation": body["conversation"]}))
    alone = [session(reader, {"prompt_cache_key": name}) for name in "abcde"]
    assert found == alone
    assert len(set(found)) == 5


@pytest.mark.parametrize("conversation", ["conv_1", {"id": "conv_1"}, {"id": "conv_1", "x": []}])
def test_conversation_names_the_session_and_its_label(
    reader: RequestReader, conversation: object
) -> None:
    request = read(reader, {"conversation": conversation})
    assert request.labels.session == "conv_1"
    assert request.placement.session_key == session(reader, {}, (b"session-id", b"conv_1"))


@pytest.mark.parametrize("conversation", [None, 5, [], {}, {"id": 5}, "", ["conv_1"]])
def test_conversation_of_another_kind_names_nothing(
    reader: RequestReader, conversation: object
) -> None:
    request = read(reader, {"conversation": conversation})
    assert request.labels.session == ""
    assert request.placement.session_key == read(reader).placement.session_key


def test_names_are_matched_whole_and_within_an_account(reader: RequestReader) -> None:
    long = b"s" * 300
    names = [b"session-1", b"session-12", b"session-1 ", long + b"1", long + b"2"]
    keys = {
        session(reader, {}, (b"x-session-id", name), by=by)
        for name in names
        for by in (ACME, OTHER)
    }
    assert len(keys) == 2 * len(names)
    assert 0 not in keys


def test_a_session_without_a_name_is_known_by_its_opening(reader: RequestReader) -> None:
    first = read(reader)
    assert first.labels.session == ""
    assert first.placement.session_key == first.prompt.chain.opening != 0
    answered = [*HELLO, {"role": "assistant", "content": "hello"}, {"role": "user", "content": "?"}]
    assert read(reader, {"messages": answered}).placement.session_key == first.placement.session_key
    assert (
        read(reader, {"messages": answered[1:], "tools": []}).placement.session_key
        == first.placement.session_key
    )
    others = {
        read(
            reader, {"messages": [SYSTEM, {"role": "user", "content": "hi!"}]}
        ).placement.session_key,
        read(reader, by=OTHER).placement.session_key,
        read(reader, {"model": SECOND.id}).placement.session_key,
        first.placement.session_key,
    }
    assert len(others) == 4


def test_nothing_at_all_is_no_session(reader: RequestReader) -> None:
    assert read(reader, {"messages": [SYSTEM]}).placement.session_key == 0


def test_chains_of_accounts_and_of_models_share_no_link(reader: RequestReader) -> None:
    chains = [read(reader).prompt.chain, read(reader, by=OTHER).prompt.chain]
    chains.append(read(reader, {"model": SECOND.id}).prompt.chain)
    assert len({link for chain in chains for link in chain.links}) == 3 * 3
    assert read(reader).prompt.chain == chains[0]
    assert chains[0].has_system


def test_a_prompt_has_the_chain_of_its_message(reader: RequestReader) -> None:
    run = b"/client/v4/accounts/acme/ai/run/@cf/x/first"
    message = [{"role": "user", "content": "hi"}]
    caller = CallerHeaders([])
    chains = [
        reader.read(
            RequestId(new_id()), find_route(run), caller, ACME, msgspec.json.encode(body)
        ).prompt.chain
        for body in ({"prompt": "hi"}, {"messages": message})
    ]
    assert chains[0] == chains[1] == read(reader, {"messages": message}).prompt.chain


def test_an_image_has_the_size_of_its_tokens(reader: RequestReader) -> None:
    image = {"type": "image_url", "image_url": "data:image/png;base64," + "AAAA" * 10_000}
    sizes = [
        read(reader, {"messages": [{"role": "user", "content": content}]}).prompt.chain.sizes[1]
        for content in ([image], [image, image])
    ]
    around = len('{"type":"image_url","image_url":},')
    assert sizes[1] - sizes[0] == 100 * 3 + around


def test_strict_affinity_is_the_accounts_choice(reader: RequestReader) -> None:
    assert not read(reader).placement.is_affinity_strict
    assert read(reader, by=key("acme", Affinity.STRICT)).placement.is_affinity_strict
