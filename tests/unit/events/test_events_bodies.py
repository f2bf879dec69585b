"""Who is told of what, and in which shape."""

import json
from collections.abc import Sequence
from typing import Any, get_args

import msgspec

from penstock.events.endpoints import Endpoint
from penstock.events.event import JOB_TYPES, OPENAI_TYPES, WORKERS_AI_TYPES, Event, Shape
from penstock.events.relay import due_deliveries
from penstock.records.account import AccountId
from penstock.wire.resources.webhooks import EventType, ModelEventType

ACCOUNT = AccountId("acc")
MODEL = "@cf/moonshotai/kimi-k2.5"


def endpoint(shape: Shape, *events: str, account: str = ACCOUNT, model: str = "") -> Endpoint:
    return Endpoint(
        id="0190a0b1-c2d3-7e4f-8a5b-6c7d8e9f0a1b",
        account=AccountId(account),
        shape=shape,
        name="n",
        url="https://hooks.example/",
        events=events,
        model=model,
        is_enabled=True,
        disabled_reason="",
        created_at=0.0,
        modified_at=0.0,
        secrets=(b"s",),
    )


def event(kind: str, **data: str | int | None) -> Event:
    return Event("0190a0b1-0000-7000-8000-000000000000", ACCOUNT, kind, 1_767_225_600.25, data)


def told(events: Sequence[Event], *endpoints: Endpoint) -> list[Any]:
    deliveries = due_deliveries(events, endpoints, lambda code: (429, len(code)))
    return [json.loads(delivery.body) for delivery in deliveries]


def test_a_model_event_has_workers_ais_shape() -> None:
    happened = event(WORKERS_AI_TYPES[1], model=MODEL, id="req-1")
    subscription = endpoint(Shape.WORKERS_AI, *WORKERS_AI_TYPES, model=MODEL)
    assert told([happened], subscription)[0] == {
        "type": "cf.workersAi.model.batch.succeeded",
        "source": {"type": "workersAi.model", "modelName": MODEL},
        "payload": {"requestId": "req-1"},
        "metadata": {
            "accountId": ACCOUNT,
            "eventSubscriptionId": subscription.id,
            "eventSchemaVersion": 1,
            "eventTimestamp": "2026-01-01T00:00:00.250Z",
        },
    }


def test_a_failed_model_event_says_why() -> None:
    subscription = endpoint(Shape.WORKERS_AI, *WORKERS_AI_TYPES)
    happened = event(WORKERS_AI_TYPES[2], model=MODEL, id="req-1", code="spent", message="No.")
    assert told([happened], subscription)[0]["payload"] == {
        "requestId": "req-1",
        "message": "No.",
        "internalCode": 5,
        "httpCode": 429,
    }


def test_only_those_who_asked_for_it_are_told() -> None:
    events = [
        event("batch.completed", id="batch_1"),
        event("job.failed", id="j"),
        event(WORKERS_AI_TYPES[0], model=MODEL, id="r"),
    ]
    batches = endpoint(Shape.OPENAI, "batch.completed")
    assert [each["type"] for each in told(events, batches)] == ["batch.completed"]
    jobs = endpoint(Shape.OPENAI, *JOB_TYPES)
    assert [each["data"] for each in told(events, jobs)] == [{"id": "j"}]
    of_model = endpoint(Shape.WORKERS_AI, *WORKERS_AI_TYPES, model=MODEL)
    of_another = endpoint(Shape.WORKERS_AI, *WORKERS_AI_TYPES, model="@cf/other")
    assert len(told(events, of_model, of_another)) == 1
    assert not told(events, endpoint(Shape.OPENAI, *OPENAI_TYPES, account="other"))


def test_the_wire_names_the_types_there_are() -> None:
    for names, kind in ((OPENAI_TYPES, EventType), (WORKERS_AI_TYPES, ModelEventType)):
        for name in names:
            assert msgspec.convert(name, kind) == name
        assert len(names) == len(get_args(kind))
