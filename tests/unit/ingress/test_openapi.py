"""`/openapi.json`: what it describes is served, and what is served is described."""

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from starlette.applications import Starlette
from starlette.routing import Route
from tests.unit.routing.routing_samples import Roster

from penstock.admission import AdmissionSettings
from penstock.app.batch_parts import BatchNeeds, BatchParts
from penstock.app.container_rooms import container_book
from penstock.app.flex_parts import FlexParts
from penstock.app.job_rooms import session_books
from penstock.catalogue import Catalogue
from penstock.clock import TimerWheel
from penstock.config import Config
from penstock.contracts.counts import ContractCounts
from penstock.contracts.decision_book import DecisionBook
from penstock.engine.settings import EngineSettings
from penstock.events import EndpointBook, EventsSettings, Feed, WebhookSettings
from penstock.ingress.jobs.background_endpoint import BackgroundEndpoint, BackgroundRooms
from penstock.ingress.pages.container_file_pages import ContainerFilePages
from penstock.ingress.pages.container_pages import ContainerPages
from penstock.ingress.pages.conversation_pages import ConversationPages
from penstock.ingress.pages.decision_pages import DecisionPages
from penstock.ingress.pages.event_pages import EventPages
from penstock.ingress.pages.front_page import FrontPage
from penstock.ingress.pages.health import HealthPages
from penstock.ingress.pages.model_pages import ModelPages
from penstock.ingress.pages.openapi import document, input_schema, output_schema
from penstock.ingress.pages.pages import Pages, build_pages
from penstock.ingress.pages.response_pages import ResponsePages
from penstock.ingress.pages.routing_pages import RoutingPages
from penstock.ingress.pages.subscription_pages import SubscriptionPages
from penstock.ingress.pages.token_pages import TokenPages
from penstock.ingress.pages.usage_pages import UsagePages
from penstock.ingress.pages.webhook_pages import WebhookPages
from penstock.ingress.settings import IngressSettings
from penstock.intake.request_reader import RequestReader
from penstock.intake.routes import Surface, find_route, is_inference
from penstock.intake.storage_policy import StoragePolicy
from penstock.jobs.submission import DeskRooms, JobDesk
from penstock.metering import MeteringSettings, PriceBook
from penstock.metering.reports.usage_reports import UsageReports
from penstock.outbound import Sender
from penstock.policy import AccountBook, KeyMirror, PolicySettings
from penstock.queue import Batches, Queue, QueueSettings
from penstock.queue.files import Files
from penstock.records.decision_log import DecisionLog
from penstock.records.model import Family
from penstock.records.signal import PeerState
from penstock.routing import Router, RoutingSettings
from penstock.serving.explanation import Explainer
from penstock.serving.fleet_clients import FleetClients
from penstock.serving.settings import ServingSettings
from penstock.serving.token_counting import TokenCounter
from penstock.store import Store, StoreSettings
from penstock.store.kept_values import KeptValues
from penstock.testing.clear_objects import clear_objects
from penstock.testing.manual_clock import ManualClock
from penstock.turns import BackgroundResponses, StoredTurns
from penstock.wire.resources import schemas

FILL = {"{account_id}": "acme", "{model}": "@cf/x/y"}


@contextlib.asynccontextmanager
async def lifespan(_: Starlette) -> AsyncIterator[None]:
    yield


@pytest.fixture
def pages() -> Starlette:
    catalogue = Catalogue([])
    mirror = KeyMirror(Store(StoreSettings(dsn="host=127.0.0.1")), ManualClock(), PolicySettings())
    reader = RequestReader(catalogue, mirror, PriceBook(catalogue.models), IngressSettings().intake)
    store = Store(StoreSettings(dsn="host=127.0.0.1"))
    clock, routing = ManualClock(), RoutingSettings()
    explainer = Explainer(Router(Roster(), routing), routing, lambda: PeerState.ALONE)
    objects = clear_objects(StoreSettings(dsn="host=127.0.0.1"))
    values = KeptValues(objects, ServingSettings())
    rooms = DeskRooms(store, Queue(QueueSettings()), Batches(), values)
    desk = JobDesk(rooms, AdmissionSettings(), clock)
    needs = BatchNeeds(store, objects, desk, reader, mirror, ContractCounts(), DecisionLog())
    batches = BatchParts(needs, IngressSettings(), clock)
    webhooks = WebhookSettings()
    book = EndpointBook(store, webhooks)
    containers = container_book(store, objects, Config(), clock)
    clients = FleetClients(EngineSettings(), TimerWheel(clock), clock)
    sessions = session_books(store, values, Config(), clock)
    turns = StoredTurns(store, sessions, reader, StoragePolicy(), frozenset())
    flex = FlexParts(rooms, desk, reader, catalogue, IngressSettings(), clock)
    parts = BackgroundRooms(
        desk, flex.waits, turns, BackgroundResponses(sessions, clock), sessions.responses
    )
    background = BackgroundEndpoint(parts, IngressSettings(), clock)
    made = Pages(
        front=FrontPage(catalogue, frozenset, lambda _: False),
        tokens=TokenPages(reader, TokenCounter(clients, lambda _: ()), turns),
        responses=ResponsePages(reader, sessions.responses, background),
        containers=ContainerPages(
            reader,
            containers,
            StoragePolicy(),
            ContainerFilePages(reader, containers, Files(store, objects, clock), 1024),
        ),
        conversations=ConversationPages(
            reader, sessions.conversations, StoragePolicy(), frozenset()
        ),
        models=ModelPages(reader, catalogue, frozenset, ManualClock()),
        decisions=DecisionPages(reader, DecisionBook(store, clock), clock),
        usage=UsagePages(reader, UsageReports(store, MeteringSettings()), ManualClock()),
        health=HealthPages({}),
        routing=RoutingPages(reader, explainer, AccountBook(store).find, clock),
        jobs=flex.pages,
        files=batches.files,
        batches=batches.batches,
        events=EventPages(reader, Feed(store, EventsSettings())),
        webhooks=WebhookPages(reader, book, Sender(webhooks), webhooks, clock),
        subscriptions=SubscriptionPages(reader, book),
    )
    return build_pages(made, IngressSettings(), lifespan)


def described() -> set[tuple[str, str]]:
    return {(method, path) for path, item in document()["paths"].items() for method in item}


def hot() -> set[tuple[str, str]]:
    """What is posted to a model; an explanation only looks like it."""
    assert not is_inference(b"POST", b"/v1/routing/explain")
    return {
        (method, path)
        for method, path in described()
        if method == "post" and is_inference(b"POST", filled(path))
    }


def filled(path: str) -> bytes:
    for name, value in FILL.items():
        path = path.replace(name, value)
    return path.encode()


def test_every_page_is_described_and_every_described_page_is_served(pages: Starlette) -> None:
    served = set()
    for route in pages.routes:
        assert isinstance(route, Route)
        path = route.path.replace(":path}", "}")
        if "PUT" in (route.methods or ()):
            # A hot path with another method than its own: it only says so.
            assert ("post", path) in described()
            continue
        served |= {(method.lower(), path) for method in (route.methods or set()) - {"HEAD"}}
    assert served == {each for each in described() if each not in hot()}


def test_every_described_inference_is_hot_and_read() -> None:
    surfaces = []
    for _, path in hot():
        route = find_route(filled(path))
        assert (route.account == "acme") is ("{account_id}" in path)
        assert (route.model == "@cf/x/y") is ("{model}" in path)
        surfaces.append(route.surface)
    assert set(surfaces) == set(Surface)
    # Five APIs and `compact` under `/v1` and under an account, and two ways to run a model.
    assert len(surfaces) == 14


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        found = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return found.union(*(references(each) for each in value.values()))
    if isinstance(value, list):
        return set().union(*(references(each) for each in value))
    return set()


def test_document_is_json_and_every_reference_in_it_leads_somewhere() -> None:
    whole = json.loads(msgspec.json.encode(document()))
    assert whole["openapi"].startswith("3.1")
    names = whole["components"]["schemas"]
    used = references(whole)
    assert used
    for reference in used:
        prefix, _, name = reference.rpartition("/")
        assert prefix == "#/components/schemas"
        assert name in names


def test_every_path_parameter_is_declared() -> None:
    for path, item in document()["paths"].items():
        wanted = {part.strip("{}") for part in path.split("/") if part.startswith("{")}
        for operation in item.values():
            declared = {
                each["name"] for each in operation.get("parameters", []) if each["in"] == "path"
            }
            assert declared == wanted, path


def test_every_operation_says_how_it_fails() -> None:
    for path, item in document()["paths"].items():
        for operation in item.values():
            assert "200" in operation["responses"], path
            assert len(operation["responses"]) >= 2, path


@pytest.mark.parametrize("family", Family)
def test_schemas_of_a_model_stand_alone(family: Family) -> None:
    for schema in (input_schema(family), output_schema(family)):
        whole = json.loads(msgspec.json.encode(schema))
        for reference in references(whole):
            assert reference.startswith("#/$defs/")
            assert reference.rpartition("/")[2] in whole["$defs"]


def test_described_request_of_a_real_client_fits_its_own_type() -> None:
    body = {
        "model": "default",
        "messages": [
            {"role": "system", "content": "x"},
            {"role": "user", "content": [{"type": "text", "text": "hi"}]},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "f:0", "type": "function", "function": {"name": "f", "arguments": "{}"}}
                ],
            },
            {"role": "tool", "tool_call_id": "f:0", "content": "1"},
        ],
        "temperature": 0.7,
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [{"type": "function", "function": {"name": "f"}}],
    }
    read = msgspec.convert(body, schemas.ChatCompletionRequest)
    assert read.model == "default"
    assert len(read.messages) == 4
