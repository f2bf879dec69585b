"""The last step of shaping: one shaper for each form in which a client gets its answer.

Besides events and whole answers, each shaper knows how its API ends a complete or failed stream.
"""

from typing import ClassVar, Final

from penstock.errors import Error
from penstock.ingress import error_response
from penstock.records.model import Family
from penstock.records.request import Api, InferenceRequest
from penstock.serving.shaping import Shaper
from penstock.wire.apis.embeddings import workers_ai_embeddings
from penstock.wire.apis.native_stream import native_events
from penstock.wire.apis.response_format import is_structured
from penstock.wire.apis.workers_ai import envelope, native_json_result, native_result

DONE: Final = b"data: [DONE]\n\n"
RESPONSE_ENDS: Final = (b"event: response.completed\n", b"event: response.incomplete\n")
_EVENT_END: Final = b"\n\n"


class ApiShaper(Shaper):
    """Passes the engine's bytes on unchanged, for OpenAI's chat, completions and embeddings."""

    def find_end(self, events: bytes) -> int:
        """Return where the event that ends the stream begins; the length if there is none."""
        return len(events) - len(DONE) if events.endswith(DONE) else len(events)

    def failure(self, error: Error, request_id: str) -> bytes:
        """Return the last events of a stream that has begun and cannot be completed."""
        return error_response.event(error, request_id) + DONE


class RunShaper(ApiShaper):
    """`/ai/run`, whose clients take `[DONE]` for success and know no error events."""

    def failure(self, error: Error, request_id: str) -> bytes:
        return error_response.event(error, request_id)


class EnvelopeShaper(RunShaper):
    """`/ai/run` of an OpenAI-family model: JSON in the envelope, events bare."""

    def answer(self, answer: bytes) -> bytes:
        return envelope(answer)


class NativeShaper(RunShaper):
    """`/ai/run` of a native-family model."""

    def events(self, events: bytes) -> bytes:
        return native_events(events)

    def answer(self, answer: bytes) -> bytes:
        return envelope(native_result(answer))


class NativeJsonShaper(NativeShaper):
    """`/ai/run` of a native-family model in JSON mode."""

    def answer(self, answer: bytes) -> bytes:
        return envelope(native_json_result(answer))


class EmbeddingsRunShaper(RunShaper):
    """`/ai/run` of an embedding model: vectors and their dimensions, in the envelope."""

    def answer(self, answer: bytes) -> bytes:
        return envelope(workers_ai_embeddings(answer))


class NamedShaper(ApiShaper):
    """An API whose events have names. Keeps the first and the latest events of a stream.

    If the stream breaks, the error event that ends it must be consistent with them.
    """

    # The first line of the event that ends a stream of this API.
    _ends: ClassVar[tuple[bytes, ...]] = ()

    def __init__(self) -> None:
        self._first = self._latest = b""

    def events(self, events: bytes) -> bytes:
        if events:
            self._first = self._first or events.partition(_EVENT_END)[0]
            self._latest = events
        return events

    def find_end(self, events: bytes) -> int:
        start = events.rfind(_EVENT_END, 0, -len(_EVENT_END))
        # `rfind` returns -1 if there is only one event.
        start = 0 if start < 0 else start + len(_EVENT_END)
        return start if events.startswith(self._ends, start) else len(events)


class ResponsesShaper(NamedShaper):
    """OpenAI's Responses."""

    _ends = RESPONSE_ENDS

    def failure(self, error: Error, request_id: str) -> bytes:
        return error_response.responses_event(error, request_id, self._first, self._latest)


class ResponsesRunShaper(ResponsesShaper):
    """Responses on `/ai/run`: JSON in the envelope, events bare."""

    def answer(self, answer: bytes) -> bytes:
        return envelope(answer)


class MessagesShaper(NamedShaper):
    """Anthropic's Messages."""

    _ends = (b"event: message_stop\n",)

    def failure(self, error: Error, request_id: str) -> bytes:
        return error_response.messages_event(error, request_id)


def shaper_for(request: InferenceRequest, *, is_run: bool) -> ApiShaper:
    """Return the shaper of the API that a request came by; `is_run` is True on `/ai/run`."""
    if request.api is Api.RESPONSES:
        return ResponsesRunShaper() if is_run else ResponsesShaper()
    if request.api is Api.MESSAGES:
        return MessagesShaper()
    if not is_run:
        return ApiShaper()
    if request.api is Api.EMBEDDINGS:
        return EmbeddingsRunShaper()
    if request.model.family is not Family.NATIVE:
        return EnvelopeShaper()
    return NativeJsonShaper() if is_structured(request.prompt.body) else NativeShaper()
