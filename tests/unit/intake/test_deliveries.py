"""Whether a request is wanted now or later, told from path, headers and body."""

import msgspec
import pytest

from penstock.catalogue import Catalogue
from penstock.clock import new_id
from penstock.errors import InvalidRequest, MissingCapability
from penstock.ingress.settings import IngressSettings
from penstock.intake.caller_headers import CallerHeaders
from penstock.intake.opened_request import Delivery, OpenedRequest
from penstock.intake.request_reader import RequestReader
from penstock.intake.routes import find_route
from penstock.metering import PriceBook
from penstock.policy import KeyMirror, PolicySettings
from penstock.records.account import Account, AccountId, Key, KeyId, Role
from penstock.records.model import Capability, Family, Model, ModelId, Recipe
from penstock.records.price import Prices, Tier
from penstock.records.request import RequestId
from penstock.store import Store, StoreSettings
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


def make_reader(settings: IngressSettings) -> RequestReader:
    mirror = KeyMirror(Store(StoreSettings(dsn="host=127.0.0.1")), ManualClock(), PolicySettings())
    mirror._cell_secret = b"a cell's secret"
    catalogue = Catalogue([FULL, PLAIN])
    return RequestReader(catalogue, mirror, PriceBook(catalogue.models), settings.intake)


@pytest.fixture
def reader() -> RequestReader:
    return make_reader(IngressSettings())


def open_request(
    reader: RequestReader, target: bytes, body: dict[str, object], **headers: bytes
) -> tuple[OpenedRequest, CallerHeaders]:
    caller = CallerHeaders([(name.replace("_", "-").encode(), v) for name, v in headers.items()])
    return reader.open(find_route(target), caller, KEY, msgspec.json.encode(body)), caller


@pytest.mark.parametrize(
    ("target", "body", "headers", "delivery"),
    [
        (CHAT, HELLO, {}, None),
        (CHAT, {**HELLO, "service_tier": "flex"}, {}, Delivery.IN_PLACE),
        (CHAT, {**HELLO, "service_tier": "auto"}, {}, None),
        (CHAT, {**HELLO, "service_tier": None}, {}, None),
        (CHAT, HELLO, {"prefer": b"respond-async"}, Delivery.PREFER),
        (CHAT, HELLO, {"prefer": b"wait=3"}, None),
        (CHAT, {**HELLO, "service_tier": "flex"}, {"prefer": b"respond-async"}, Delivery.PREFER),
        (CHAT, HELLO, {"cf_aig_async": b"true"}, None),
        (RUN, HELLO, {}, None),
        (RUN, HELLO, {"cf_aig_async": b"true"}, Delivery.TASK),
        (RUN, HELLO, {"cf_aig_async": b"false"}, None),
        (RUN + b"?queueRequest=true", HELLO, {}, Delivery.QUEUE),
        (RUN + b"?queueRequest=false", HELLO, {}, None),
        (RUN, {**HELLO, "options": {"queueRequest": True}}, {}, Delivery.QUEUE),
        (RUN, {**HELLO, "options": {"rejectIfBusy": True}}, {}, None),
        (RUN, {"requests": [HELLO]}, {}, Delivery.QUEUE),
        (RUN, {"request_id": "x"}, {}, Delivery.QUEUE),
        (RUN, {"requests": [HELLO]}, {"cf_aig_async": b"true"}, Delivery.QUEUE),
    ],
)
def test_wish_is_read_from_where_it_is_said(
    reader: RequestReader,
    target: bytes,
    body: dict[str, object],
    headers: dict[str, bytes],
    delivery: Delivery | None,
) -> None:
    opened, _ = open_request(reader, target, {"model": FULL.id, **body}, **headers)
    assert opened.delivery is delivery


def test_what_may_wait_costs_less(reader: RequestReader) -> None:
    opened, caller = open_request(reader, CHAT, {"model": FULL.id, **HELLO, "service_tier": "flex"})
    request = reader.read_prompt(RequestId(new_id()), caller, opened, Tier.FLEX)
    assert request.terms.tier is Tier.FLEX
    assert request.terms.price.multiplier_bp == 5000
    now, caller = open_request(reader, CHAT, {"model": FULL.id, **HELLO})
    assert reader.read_prompt(RequestId(new_id()), caller, now).terms.price.multiplier_bp == 10_000


def test_long_bodies_are_not_held_twice(reader: RequestReader) -> None:
    long = [{"role": "user", "content": "x" * 100_000}]
    opened, caller = open_request(reader, CHAT, {"model": FULL.id, "messages": long})
    assert opened.body_bytes > 100_000
    assert [len(parsed.messages or ()) for parsed in (opened.parsed,) if parsed] == [1]
    request = reader.read_prompt(RequestId(new_id()), caller, opened)
    assert opened.parsed is None
    request.prompt.body.clear()
    assert not opened.fields


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
        open_request(reader, CHAT, {"model": PLAIN.id, **body}, **headers)
    assert refused.value.param == param


def test_doors_can_be_shut() -> None:
    reader = make_reader(IngressSettings(flex=False))
    with pytest.raises(InvalidRequest, match="not available"):
        open_request(reader, CHAT, {"model": FULL.id, **HELLO, "service_tier": "flex"})
    assert open_request(reader, CHAT, {"model": FULL.id, **HELLO})[0].delivery is None


def test_idempotency_key_is_taken_whole_or_refused(reader: RequestReader) -> None:
    _, caller = open_request(reader, CHAT, {"model": FULL.id, **HELLO}, idempotency_key=b"a" * 256)
    assert caller.idempotency_key() == "a" * 256
    _, caller = open_request(reader, CHAT, {"model": FULL.id, **HELLO}, idempotency_key=b"a" * 257)
    with pytest.raises(InvalidRequest, match="256"):
        caller.idempotency_key()
