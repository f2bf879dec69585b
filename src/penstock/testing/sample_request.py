"""Builds an InferenceRequest from flat fields, for tests, benchmarks and the simulator."""

from typing import Any

from penstock.records.account import AccountId, KeyId
from penstock.records.request import (
    InferenceRequest,
    RequestId,
    RequestLabels,
    RequestPlacement,
    RequestPrompt,
    RequestTerms,
)

# One sample of each part, from which its field names are read.
_PARTS: dict[str, Any] = {
    "labels": RequestLabels(),
    "terms": RequestTerms(),
    "prompt": RequestPrompt(body={}, is_stream=False, cache_salt=""),
    "placement": RequestPlacement(),
}


def sample_request(**fields: Any) -> InferenceRequest:  # noqa: ANN401 - the records' own types
    """Return a request with these fields, each in its part; `model` is required."""
    given: dict[str, Any] = {"body": {}, "is_stream": False, "cache_salt": "", **fields}
    parts = {
        name: type(part)(**{field: given.pop(field) for field in dir(part) if field in given})
        for name, part in _PARTS.items()
    }
    names = {"id": RequestId("1"), "account": AccountId("a"), "key": KeyId("k"), **given}
    return InferenceRequest(**names, **parts)


def flat_fields(request: InferenceRequest) -> dict[str, Any]:
    """Return all fields of a request and of its parts, by name."""
    fields = {"id": request.id, "account": request.account, "key": request.key}
    flat: dict[str, Any] = {**fields, "model": request.model, "api": request.api}
    for name in _PARTS:
        part = getattr(request, name)
        flat |= {field: getattr(part, field) for field in dir(part) if not field.startswith("_")}
    return flat
