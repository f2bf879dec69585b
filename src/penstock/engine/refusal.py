"""Maps an engine's error answers to ours: whose fault it is, and may another replica try."""

import msgspec

from penstock.errors import EngineFailed, Error, InvalidRequest, OutOfCapacity, PromptTooLong

_MESSAGE_CHARS_MAX = 2000
# How vLLM reports a prompt that is too long. Others have only words: vLLM's, SGLang's, llama.cpp's.
_TOO_LONG_PARAM = "input_tokens"
_TOO_LONG_WORDS = (
    "maximum context length",
    "longer than the model's context length",
    "exceeds the available context size",
)


class _EngineError(msgspec.Struct):
    message: str = ""
    param: str | None = None


class _EngineAnswer(msgspec.Struct):
    error: _EngineError | None = None
    message: str = ""


_decoder = msgspec.json.Decoder(_EngineAnswer)


def error_for(status: int, body: bytes) -> Error:
    """Return the error for an engine's answer that is not 200."""
    message, param = _read(body)
    if status == 503:
        # "engine is currently busy": nothing ran, and another replica may have room.
        return OutOfCapacity(retry_after_seconds=1)
    if status == 400 and (param == _TOO_LONG_PARAM or _is_too_long(message)):
        # Some clients recognise this error by its words alone: their SDKs do not expose the code.
        return PromptTooLong(f"The prompt is too long. {message}", param=param)
    if status in (404, 405) and not message:
        return InvalidRequest(
            f"The engine does not serve this API ({status}). Chat completions work on every engine."
        )
    if status in (400, 404, 413, 422):
        return InvalidRequest(message or f"The engine refused the request ({status}).", param=param)
    return EngineFailed(f"Model execution failed: the engine answered {status}.")


def _is_too_long(message: str) -> bool:
    return any(words in message for words in _TOO_LONG_WORDS)


def _read(body: bytes) -> tuple[str, str | None]:
    try:
        answer = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "", None
    error = answer.error or _EngineError(answer.message)
    return error.message[:_MESSAGE_CHARS_MAX], error.param
