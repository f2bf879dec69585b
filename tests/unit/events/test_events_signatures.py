"""What we sign is what openai's own client verifies."""

import base64
import time

import pytest
from openai import InvalidWebhookSignatureError, OpenAI
from openai.types.webhooks import BatchCompletedWebhookEvent

from penstock.events.event import BATCH_TYPES, Event, openai_body
from penstock.events.signatures import hint, new_secret, shown, signed_headers
from penstock.records.account import AccountId

ID = "0190a0b1-c2d3-7e4f-8a5b-6c7d8e9f0a1b"


@pytest.fixture(scope="module")
def client() -> OpenAI:
    return OpenAI(api_key="none", base_url="http://127.0.0.1:9/v1")


def event(kind: str = "batch.completed") -> Event:
    return Event(ID, AccountId("a"), kind, 1_700_000_000.9, {"id": "batch_1", "name": "ünï"})


def headers(secrets: list[bytes], body: bytes, now: float | None = None) -> dict[str, str]:
    at = time.time() if now is None else now  # noqa: TID251 - the SDK asks the same clock
    return dict(signed_headers(event().public_id, body, secrets, at))


def test_openai_unwraps_what_we_sign(client: OpenAI) -> None:
    secret, body = new_secret(), openai_body(event())
    found = client.webhooks.unwrap(body, headers([secret], body), secret=shown(secret))
    assert isinstance(found, BatchCompletedWebhookEvent)
    assert (found.id, found.object, found.data.id) == (event().public_id, "event", "batch_1")
    assert found.created_at == 1_700_000_000


@pytest.mark.parametrize("kind", BATCH_TYPES)
def test_every_batch_event_is_known_to_openai(client: OpenAI, kind: str) -> None:
    secret, body = new_secret(), openai_body(event(kind))
    found = client.webhooks.unwrap(body, headers([secret], body), secret=shown(secret))
    assert found.type == kind


def test_either_secret_verifies_while_one_takes_over(client: OpenAI) -> None:
    new, old, body = new_secret(), new_secret(), openai_body(event())
    sent = headers([new, old], body)
    assert sent["webhook-signature"].count("v1,") == 2
    for secret in (new, old):
        client.webhooks.verify_signature(body, sent, secret=shown(secret))


def test_another_secret_body_or_time_is_refused(client: OpenAI) -> None:
    secret, body = new_secret(), openai_body(event())
    cases = [
        (body, headers([secret], body), new_secret()),
        (body + b" ", headers([secret], body), secret),
        (body, headers([secret], body, now=1_700_000_000), secret),
    ]
    for payload, sent, known in cases:
        with pytest.raises(InvalidWebhookSignatureError):
            client.webhooks.verify_signature(payload, sent, secret=shown(known))


def test_a_hint_gives_little_away() -> None:
    secret = new_secret()
    assert len(base64.b64decode(shown(secret).removeprefix("whsec_"))) == 32
    assert hint(secret).endswith(shown(secret)[-4:])
    assert len(hint(secret)) < 12
