"""Lists of models: OpenAI's, and Workers AI's search and schema."""

from datetime import date

import msgspec

from penstock.records.model import Capability, Model

TASK_ID = "c329a1f9-323d-4e91-b2aa-582dd4188d34"

_PROPERTIES = {
    Capability.ASYNC_QUEUE: "async_queue",
    Capability.TOOLS: "function_calling",
    Capability.REASONING: "reasoning",
    Capability.VISION: "vision",
    Capability.LORA: "lora",
}


class OpenAIModel(msgspec.Struct):
    """One entry of `GET /v1/models`."""

    id: str
    created: int
    owned_by: str
    context_window: int
    object: str = "model"


class OpenAIModelList(msgspec.Struct):
    """`GET /v1/models`."""

    data: list[OpenAIModel]
    object: str = "list"


class Task(msgspec.Struct):
    """What a model is for."""

    id: str
    name: str
    description: str


class Property(msgspec.Struct):
    """A fact about a model: text, or for `price` a list."""

    property_id: str
    value: str | list[dict[str, str | float]]


class FoundModel(msgspec.Struct):
    """One entry of `GET …/ai/models/search`."""

    id: str
    source: int
    name: str
    description: str
    task: Task
    tags: list[str]
    properties: list[Property]
    created_at: str = "2026-01-01 00:00:00.000"


def openai_model(model: Model, name: str = "") -> OpenAIModel:
    """Return a model's entry, under its id or another of its names."""
    author = model.id.split("/")[1] if model.id.count("/") >= 2 else "penstock"
    return OpenAIModel(name or model.id, 1_767_225_600, author, model.context_tokens)


def found_model(model: Model, model_uuid: str, day: date) -> FoundModel:
    properties: list[Property] = [Property("context_window", str(model.context_tokens))]
    properties += [Property(name, "true") for kind, name in _PROPERTIES.items() if model.has(kind)]
    row = model.prices_on(day)
    prices = [
        ("per M input tokens", row.input_nanousd_per_mtok),
        ("per M cached input tokens", row.cached_input_nanousd_per_mtok),
        ("per M output tokens", row.output_nanousd_per_mtok),
    ]
    listed: list[dict[str, str | float]] = [
        {"unit": unit, "price": nano / 10**9, "currency": "USD"} for unit, nano in prices if nano
    ]
    if listed:
        properties.append(Property("price", listed))
    task = Task(TASK_ID, model.task, "Generates text from a conversation.")
    return FoundModel(model_uuid, 1, model.id, model.description, task, [], properties)
