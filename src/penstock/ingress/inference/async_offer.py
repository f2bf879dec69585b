"""Describes how a caller that is refused for lack of capacity can queue its request instead."""

from typing import Final

from msgspec import UNSET, UnsetType

from penstock.errors import Error, OutOfCapacity
from penstock.intake.routes import Surface, surface_of
from penstock.records.model import Capability
from penstock.records.request import Api, InferenceRequest
from penstock.wire.resources.errors import AsyncOffer

_CHAT_TAIL: Final = b"/chat/completions"
_PREFER: Final = {"Prefer": "respond-async"}


def async_offer(
    error: Error, request: InferenceRequest | None, target: bytes
) -> AsyncOffer | UnsetType:
    """Return how to queue the request, if capacity is missing and it can be queued; else UNSET."""
    if not isinstance(error, OutOfCapacity) or request is None:
        return UNSET
    if request.api is not Api.CHAT or not request.model.has(Capability.ASYNC_QUEUE):
        return UNSET
    path = target.partition(b"?")[0]
    href = path.decode("latin-1")
    if surface_of(target) is Surface.OPENAI or path.endswith(_CHAT_TAIL):
        return AsyncOffer(href, _PREFER)
    return AsyncOffer(f"{href}?queueRequest=true")
