"""Whether a request is wanted now or later, told from path, headers and body."""

import msgspec
import pytest

from penstock.catalogue import Catalogue
from penstock.clock import new_id
from penstock.errors import InvalidRequest, MissingCapability
from penstock.ingress.asked import Asked, Wish
from penstock.ingress.caller_headers import CallerHeaders
from penstock.ingress.reading import RequestReader
from penstock.ingress.routes import find_route
from penstock.ingress.settings import Settings
from penstock.metering import PriceBook
from penstock.policy import KeyMirror
from penstock.policy import Settings as PolicySettings
from penstock.records.account import Account, AccountId, Key, KeyId, Role
from penstock.records.model import Capability, Family, Model, ModelId, Recipe
from penstock.records.price import Prices, Tier
from penstock.records.request import RequestId
from penstock.store import Settings as StoreSettings
from penstock.store import Store
from penstock.testing.manual_clock import ManualClock

KEY = Key(KeyId("k1"), Role.RUNTIME, Account(AccountId("acme"), "Acme"))
CHAT = b"/v1/chat/completions"
RUN = b"/client/v4/accounts/acme/ai/run/@cf/x/full"
HELLO = {"messages": [{"role": "user", "content": "hi"}]}


def model(name: str, *capabilities: Capability) -> Model:
    return Model(
        id=ModelId(name),
        family=Family.OPENAI,
        context_tokens=1000,
        recipe=Recipe(command=("x",)),
        capabilities=frozenset(capabilities),
        prices=(Prices(input_nanousd_per_mtok=1000, flex_bp=5000),),
    )


FULL, PLAIN = model("@cf/x/full", Capability.ASYNC_QUEUE), model("@cf/x/plain")


def make_reader(settings: Settings) -> RequestReader:
    mirror = KeyMirror(Store(StoreSettings(dsn="host=127.0.0.1")), ManualClock(), PolicySettings())
    mirror._cell_secret = b"a cell's secret"
    catalogue = Catalogue([FULL, PLAIN])
    return RequestReader(catalogue, mirror, PriceBook(catalogue.models), settings)


@pytest.fixture
def reader() -> RequestReader:
    return make_reader(Settings())


def opened(
    reader: RequestReader, target: bytes, body: dict[str, object], **headers: bytes
) -> tuple[Asked, CallerHeaders]:
    caller = CallerHeaders([(name.replace("_", "-").encode(), v) for name, v in headers.items()])
    return reader.open(find_route(target), caller, KEY, msgspec.json.encode(body)), caller


@pytest.mark.parametrize(
    ("target", "body", "headers", "wish"),
    [
        (CHAT, HELLO, {}, None),
        (CHAT, {**HELLO, "service_tier": "flex"}, {}, Wish.IN_PLACE),
        (CHAT, {**HELLO, "service_tier": "auto"}, {}, None),
        (CHAT, {**HELLO, "service_tier": None}, {}, None),
        (CHAT, HELLO, {"prefer": b"respond-async"}, Wish.PREFER),
        (CHAT, HELLO, {"prefer": b"wait=3"}, None),
        (CHAT, {**HELLO, "service_tier": "flex"}, {"prefer": b"respond-async"}, Wish.PREFER),
        (CHAT, HELLO, {"cf_aig_async": b"true"}, None),
        (RUN, HELLO, {}, None),
        (RUN, HELLO, {"cf_aig_async": b"true"}, Wish.TASK),
        (RUN, HELLO, {"cf_aig_async": b"false"}, None),
        (RUN + b"?queueRequest=true", HELLO, {}, Wish.QUEUE),
        (RUN + b"?queueRequest=false", HELLO, {}, None),
        (RUN, {**HELLO, "options": {"queueRequest": True}}, {}, Wish.QUEUE),
        (RUN, {**HELLO, "options": {"rejectIfBusy": True}}, {}, None),
        (RUN, {"requests": [HELLO]}, {}, Wish.QUEUE),
        (RUN, {"request_id": "x"}, {}, Wish.QUEUE),
        (RUN, {"requests": [HELLO]}, {"cf_aig_async": b"true"}, Wish.QUEUE),
    ],
)
def test_wish_is_read_from_where_it_is_said(
    reader: RequestReader,
    target: bytes,
    body: dict[str, object],
    headers: dict[str, bytes],
    wish: Wish | None,
) -> None:
    asked, _ = opened(reader, target, {"model": FULL.id, **body}, **headers)
    assert asked.wish is wish


def test_what_may_wait_costs_less(reader: RequestReader) -> None:
    asked, caller = opened(reader, CHAT, {"model": FULL.id, **HELLO, "service_tier": "flex"})
    request = reader.prompt(RequestId(new_id()), caller, asked, Tier.FLEX)
    assert request.tier is Tier.FLEX
    assert request.price.multiplier_bp == 5000
    now, caller = opened(reader, CHAT, {"model": FULL.id, **HELLO})
    assert reader.prompt(RequestId(new_id()), caller, now).price.multiplier_bp == 10_000


def test_long_bodies_are_not_held_twice(reader: RequestReader) -> None:
    long = [{"role": "user", "content": "x" * 100_000}]
    asked, caller = opened(reader, CHAT, {"model": FULL.id, "messages": long})
    assert asked.body_bytes > 100_000
    assert [len(parsed.messages or ()) for parsed in (asked.parsed,) if parsed] == [1]
    request = reader.prompt(RequestId(new_id()), caller, asked)
    assert asked.parsed is None
    request.body.clear()
    assert not asked.fields


@pytest.mark.parametrize(
    ("body", "headers", "param"),
    [
        ({**HELLO, "service_tier": "flex"}, {}, "service_tier"),
        (HELLO, {"prefer": b"respond-async"}, None),
    ],
)
def test_model_must_take_what_is_queued(
    reader: RequestReader, body: dict[str, object], headers: dict[str, bytes], param: str | None
) -> None:
    with pytest.raises(MissingCapability, match="`async_queue`") as refused:
        opened(reader, CHAT, {"model": PLAIN.id, **body}, **headers)
    assert refused.value.param == param


def test_doors_can_be_shut() -> None:
    reader = make_reader(Settings(flex=False))
    with pytest.raises(InvalidRequest, match="not available"):
        opened(reader, CHAT, {"model": FULL.id, **HELLO, "service_tier": "flex"})
    assert opened(reader, CHAT, {"model": FULL.id, **HELLO})[0].wish is None


def test_idempotency_key_is_taken_whole_or_refused(reader: RequestReader) -> None:
    _, caller = opened(reader, CHAT, {"model": FULL.id, **HELLO}, idempotency_key=b"a" * 256)
    assert caller.idempotency_key() == "a" * 256
    _, caller = opened(reader, CHAT, {"model": FULL.id, **HELLO}, idempotency_key=b"a" * 257)
    with pytest.raises(InvalidRequest, match="256"):
        caller.idempotency_key()
