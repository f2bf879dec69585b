"""Lists of models in OpenAI's and in Workers AI's shape."""

from datetime import date

import msgspec

from penstock.records.model import Capability, Family, Model, ModelId, Recipe
from penstock.records.price import Prices
from penstock.wire.resources.errors import openai_type
from penstock.wire.resources.models import found_model, openai_model

TODAY = date(2026, 11, 15)
KIMI = Model(
    id=ModelId("@cf/moonshotai/kimi-k2.5"),
    family=Family.OPENAI,
    context_tokens=256_000,
    recipe=Recipe(command=("x",)),
    description="A large model.",
    capabilities=frozenset({Capability.TOOLS, Capability.VISION, Capability.ASYNC_QUEUE}),
    prices=(Prices(600_000_000, 100_000_000, 3_000_000_000),),
)


def test_openai_entry_names_model_and_author() -> None:
    entry = msgspec.to_builtins(openai_model(KIMI))
    assert entry["id"] == "@cf/moonshotai/kimi-k2.5"
    assert entry["object"] == "model"
    assert entry["owned_by"] == "moonshotai"
    assert isinstance(entry["created"], int)


def test_model_without_an_author_is_owned_by_the_installation() -> None:
    assert openai_model(msgspec.structs.replace(KIMI, id=ModelId("tiny"))).owned_by == "penstock"


def test_found_model_has_workers_ais_properties_and_prices_in_dollars() -> None:
    found = found_model(KIMI, "uuid", TODAY)
    properties = {each.property_id: each.value for each in found.properties}
    assert properties["context_window"] == "256000"
    assert properties["function_calling"] == "true"
    assert properties["vision"] == "true"
    assert properties["async_queue"] == "true"
    assert "reasoning" not in properties
    assert properties["price"] == [
        {"unit": "per M input tokens", "price": 0.6, "currency": "USD"},
        {"unit": "per M cached input tokens", "price": 0.1, "currency": "USD"},
        {"unit": "per M output tokens", "price": 3.0, "currency": "USD"},
    ]
    assert (found.id, found.source, found.name) == ("uuid", 1, KIMI.id)
    assert found.task.name == "Text Generation"


def test_model_without_prices_lists_none() -> None:
    found = found_model(msgspec.structs.replace(KIMI, prices=(Prices(),)), "uuid", TODAY)
    assert "price" not in {each.property_id for each in found.properties}


def test_openais_error_type_follows_the_status() -> None:
    assert openai_type(400) == "invalid_request_error"
    assert openai_type(401) == "authentication_error"
    assert openai_type(429) == "rate_limit_error"
    assert {openai_type(status) for status in (500, 502, 503, 504)} == {"server_error"}


def test_price_that_holds_today_is_listed_and_not_a_later_one() -> None:
    later = Prices(1_000_000_000, valid_from=date(2026, 11, 16))
    model = msgspec.structs.replace(KIMI, prices=(*KIMI.prices, later))
    assert found_model(model, "uuid", TODAY) == found_model(KIMI, "uuid", TODAY)
    assert found_model(model, "uuid", date(2026, 11, 16)) != found_model(KIMI, "uuid", TODAY)
