"""Writes answers as vLLM 0.32 does: the same keys in the same order, recorded from a real one."""

import msgspec

from penstock.testing.scripted_engine.scripted_answers import ScriptedAnswer

FINGERPRINT = "vllm-0.32.0-scripted"
DONE = b"data: [DONE]\n\n"
_json = msgspec.json.encode

_ERROR_NAMES = {
    400: "BadRequestError",
    401: "Unauthorized",
    404: "NotFoundError",
    429: "TooManyRequestsError",
    503: "ServiceUnavailableError",
}
_ERROR_TEXTS = {
    500: "EngineCore encountered an issue. See stack trace (above) for the root cause.",
    503: "The engine is currently busy and cannot accept new requests. "
    "Please try again later or on a different instance.",
}


def error_body(
    status: int, message: str | None = None, param: str | None = None, *, kind: str | None = None
) -> bytes:
    name, text = _error(status, message)
    error = {"message": text, "type": kind or name, "param": param, "code": status}
    return _json({"error": error})


def anthropic_error(status: int, message: str | None = None) -> bytes:
    name, text = _error(status, message)
    return _json({"type": "error", "error": {"type": name, "message": text}})


def _error(status: int, message: str | None) -> tuple[str, str]:
    name = _ERROR_NAMES.get(status, "BadRequestError" if status < 500 else "InternalServerError")
    return name, message or _ERROR_TEXTS.get(status, "The script asked for this error.")


class ChunkWriter:
    """Writes the SSE events of one streamed answer."""

    def __init__(self, request_id: str, created: int, model: str, *, is_chat: bool) -> None:
        kind = "chat.completion.chunk" if is_chat else "text_completion"
        fields = _json({"id": request_id, "object": kind, "created": created, "model": model})
        self._head = b"data: " + fields[:-1] + b',"choices":['
        self._is_chat = is_chat

    def role(self, index: int, usage: bytes) -> bytes:
        choice = b'{"index":%d,"delta":{"role":"assistant","content":""},"logprobs":null,' % index
        tail = b',"prompt_token_ids":null,"prompt_text":null}\n\n'
        return self._head + choice + b'"finish_reason":null}]' + usage + tail

    def content(self, index: int, piece: str, usage: bytes) -> bytes:
        if self._is_chat:
            return self.delta(index, b'{"content":' + _json(piece) + b"}", usage)
        choice = b'{"index":%d,"text":%b,"logprobs":null,"finish_reason":null,"stop_reason":null,'
        tail = b'"prompt_token_ids":null,"token_ids":null}]'
        return self._head + choice % (index, _json(piece)) + tail + usage + b"}\n\n"

    def reasoning(self, index: int, piece: str, usage: bytes) -> bytes:
        return self.delta(index, b'{"reasoning":' + _json(piece) + b"}", usage)

    def tool_start(self, index: int, call: tuple[int, str, str], usage: bytes) -> bytes:
        position, call_id, name = call
        start = {"id": call_id, "type": "function", "index": position, "function": {"name": name}}
        return self.delta(index, b'{"content":null,"tool_calls":[' + _json(start) + b"]}", usage)

    def tool_arguments(self, index: int, position: int, piece: str, usage: bytes) -> bytes:
        more = {"index": position, "function": {"arguments": piece}}
        return self.delta(index, b'{"content":null,"tool_calls":[' + _json(more) + b"]}", usage)

    def function_part(self, index: int, part: dict[str, str], usage: bytes) -> bytes:
        """Return a piece of a call in the older form, which servers other than vLLM write."""
        return self.delta(index, b'{"function_call":' + _json(part) + b"}", usage)

    def delta(self, index: int, delta: bytes, usage: bytes) -> bytes:
        choice = b'{"index":%d,"delta":%b,"logprobs":null,"finish_reason":null,"token_ids":null}]'
        return self._head + choice % (index, delta) + usage + b"}\n\n"

    def finish(
        self,
        index: int,
        piece: str | None,
        answer: ScriptedAnswer,
        usage: bytes,
        *,
        is_last_chunk: bool,
    ) -> bytes:
        """Return the finishing chunk; it has the fingerprint if no usage chunk follows."""
        reasons = (_json(answer.finish_reason), _json(answer.stop_reason))
        if self._is_chat:
            delta = b'{"content":' + _json(piece) + b"}" if piece is not None else b"{}"
            choice = (
                b'{"index":%d,"delta":%b,"logprobs":null,"finish_reason":%b,"stop_reason":%b,'
                b'"token_ids":null}]' % (index, delta, *reasons)
            )
        else:
            choice = (
                b'{"index":%d,"text":%b,"logprobs":null,"finish_reason":%b,"stop_reason":%b,'
                b'"prompt_token_ids":null,"token_ids":null}]'
                % (index, _json(piece or ""), *reasons)
            )
        print_field = _fingerprint() if is_last_chunk else b""
        return self._head + choice + usage + print_field + b"}\n\n"

    def usage(self, usage: bytes) -> bytes:
        return self._head + b"]" + usage + _fingerprint() + b"}\n\n"


def _fingerprint() -> bytes:
    return b',"system_fingerprint":"%b"' % FINGERPRINT.encode()


def whole_answer(
    request_id: str, created: int, model: str, choices: bytes, usage: bytes, *, is_chat: bool
) -> bytes:
    """Return the body of an answer that is not streamed; `whole_choice` makes `choices`."""
    kind = "chat.completion" if is_chat else "text_completion"
    head = _json({"id": request_id, "object": kind, "created": created, "model": model})
    middle = b',"service_tier":null' + _fingerprint()
    chat_tail = b',"prompt_logprobs":null,"prompt_token_ids":null,"prompt_text":null'
    tail = b',"kv_transfer_params":null,"ec_transfer_params":null,"metrics":null}'
    return b"".join(
        (head[:-1], b',"choices":[', choices, b"]", middle, usage)
        + ((chat_tail, tail) if is_chat else (tail,))
    )


def whole_choice(
    index: int, answer: ScriptedAnswer, call_ids: list[str], *, is_chat: bool
) -> bytes:
    text = "".join(answer.pieces)
    ending = {"finish_reason": answer.finish_reason, "stop_reason": answer.stop_reason}
    if not is_chat:
        extra = {"token_ids": None, "prompt_logprobs": None, "prompt_token_ids": None}
        start = {"index": index, "text": text, "logprobs": None}
        return _json({**start, **ending, **extra, "routed_experts": None})
    message: dict[str, object] = {
        "role": "assistant",
        "content": text,
        "refusal": None,
        "annotations": None,
        "audio": None,
        "function_call": None,
    }
    if answer.calls_function:
        call = answer.tool_calls[0]
        message["function_call"] = {"name": call.name, "arguments": "".join(call.pieces)}
    elif answer.tool_calls:
        message["tool_calls"] = [
            {
                "id": call_id,
                "type": "function",
                "function": {"name": call.name, "arguments": "".join(call.pieces)},
            }
            for call_id, call in zip(call_ids, answer.tool_calls, strict=True)
        ]
    message["reasoning"] = "".join(answer.reasoning) or None
    start = {"index": index, "message": message, "logprobs": None}
    return _json({**start, **ending, "token_ids": None, "routed_experts": None})
