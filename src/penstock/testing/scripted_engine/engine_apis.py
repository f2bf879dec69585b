"""Lists vLLM's text APIs in the scripted engine, each with its reader and its answers' writer."""

from collections.abc import Callable
from typing import Final, Literal

import msgspec

from penstock.testing.scripted_engine.answer_shape import AnswerHead, AnswerShape
from penstock.testing.scripted_engine.answer_usage import AnswerUsage
from penstock.testing.scripted_engine.chat_request import read_chat, read_completion
from penstock.testing.scripted_engine.chat_shapes import ChatShape, CompletionShape
from penstock.testing.scripted_engine.embeddings_request import read_embeddings
from penstock.testing.scripted_engine.embeddings_shapes import EmbeddingsShape
from penstock.testing.scripted_engine.engine_request import (
    EngineRequest,
    MalformedRequestError,
    RequestRefusedError,
    Served,
)
from penstock.testing.scripted_engine.messages_request import read_messages
from penstock.testing.scripted_engine.messages_shapes import MessagesShape
from penstock.testing.scripted_engine.responses_request import read_responses
from penstock.testing.scripted_engine.responses_shapes import ResponsesShape
from penstock.testing.scripted_engine.vllm_shapes import DONE, anthropic_error, error_body

_Shape = Callable[[EngineRequest, AnswerHead, AnswerUsage, Callable[[], str]], AnswerShape]


class EngineApi(msgspec.Struct, frozen=True):
    """One API. `fault` is sent in streams if the engine fails; None: the connection closes."""

    read: Callable[[bytes, Served], EngineRequest]
    shape: _Shape
    id_prefix: str
    fault: bytes | None
    runner: Literal["generate", "pooling"] = "generate"
    # The answer's id is taken from the header x-request-id.
    heeds_request_id: bool = True
    # A request may ask for the header `endpoint-load-metrics`.
    tells_load: bool = False
    refuses_in_anthropic: bool = False

    def refusal(self, error: RequestRefusedError) -> bytes:
        if self.refuses_in_anthropic and not isinstance(error, MalformedRequestError):
            return anthropic_error(error.status, error.message)
        return error_body(error.status, error.message, error.param, kind=error.kind)


_CHAT_FAULT: Final = b"data: " + error_body(500) + b"\n\n" + DONE
_MESSAGES_FAULT: Final = (
    b"event: error\ndata: "
    b'{"type":"error","error":{"type":"internal_error","message":"EngineCore failed."}}\n\n'
)

APIS: Final = {
    "/v1/chat/completions": EngineApi(
        read_chat, ChatShape, "chatcmpl-", _CHAT_FAULT, tells_load=True
    ),
    "/v1/completions": EngineApi(
        read_completion, CompletionShape, "cmpl-", _CHAT_FAULT, tells_load=True
    ),
    "/v1/responses": EngineApi(
        read_responses, ResponsesShape, "resp_", None, heeds_request_id=False
    ),
    "/v1/messages": EngineApi(
        read_messages, MessagesShape, "chatcmpl-", _MESSAGES_FAULT, refuses_in_anthropic=True
    ),
    "/v1/embeddings": EngineApi(read_embeddings, EmbeddingsShape, "embd-", None, runner="pooling"),
}
