"""The last step of shaping for a Responses request that an engine answers as chat."""

import msgspec
from msgspec import Raw

from penstock.clock import Clock
from penstock.errors import Error
from penstock.ingress import error_response
from penstock.ingress.inference.api_shapers import (
    DONE,
    RESPONSE_ENDS,
    ApiShaper,
    EnvelopeShaper,
)
from penstock.ingress.inference.usage_cost import UsageCost
from penstock.intake.opened_request import ComposedRequest
from penstock.records.price import Price
from penstock.records.request import Api, InferenceRequest
from penstock.serving.shaping import Shaper, Steps
from penstock.sessions.response_ids import ResponseId, shown
from penstock.turns.tool_offers import TurnTools
from penstock.wire.apis.chat_to_response import ResponseComposer
from penstock.wire.apis.compaction import compacted
from penstock.wire.apis.response_object import Response, new_response
from penstock.wire.apis.turn_composer import TurnComposer


class ComposedShaper(ApiShaper):
    """Writes a response of ours from the chat answer. The last events are written by `end`."""

    def __init__(self, composer: ResponseComposer) -> None:
        self.composer = composer

    def events(self, events: bytes) -> bytes:
        return self.composer.events(events)

    def answer(self, answer: bytes) -> bytes:
        return msgspec.json.encode(self.composer.answer(answer))

    def end(self) -> bytes:
        return self.composer.end() + DONE

    def find_end(self, events: bytes) -> int:
        at = max(events.rfind(mark) for mark in RESPONSE_ENDS)
        return len(events) if at < 0 else at

    def failure(self, error: Error, request_id: str) -> bytes:
        return self.composer.fail(error_response.response_error(error)) + DONE


class CompactionShaper(ComposedShaper):
    """Writes the answer of `/v1/responses/compact`, which is never streamed."""

    def __init__(self, composer: ResponseComposer, kept: list[Raw], secret: str) -> None:
        super().__init__(composer)
        self._kept = kept
        self._secret = secret

    def answer(self, answer: bytes) -> bytes:
        response = self.composer.answer(answer)
        return msgspec.json.encode(compacted(response, self._kept, self._secret))


def composed_shaper(
    request: InferenceRequest, asked: ComposedRequest, clock: Clock
) -> ComposedShaper:
    """Return the shaper for a request that was made of the Responses request `asked`."""
    composer = ResponseComposer(_new_response(request, asked), clock.now)
    if asked.kept is not None:
        return CompactionShaper(composer, asked.kept, request.prompt.cache_salt)
    return ComposedShaper(composer)


def turn_shaper(
    request: InferenceRequest, asked: ComposedRequest, clock: Clock, tools: TurnTools
) -> ComposedShaper:
    """Return the shaper for a turn with tools that run here."""
    response = _new_response(request, asked)
    return ComposedShaper(
        TurnComposer(response, clock.now, tools.functions, has_outputs=tools.has_outputs)
    )


def _new_response(request: InferenceRequest, asked: ComposedRequest) -> Response:
    id = shown(ResponseId(request.id))
    return new_response(id, int(request.terms.asked_at), request.model.id, asked.echo)


def after_composing(price: Price | None, *, is_run: bool) -> Shaper:
    """Return the steps behind it: a price adds the cost, and `/ai/run` has JSON in its envelope."""
    shaper = Shaper() if price is None else UsageCost(Api.RESPONSES, price)
    return Steps(shaper, EnvelopeShaper()) if is_run else shaper
