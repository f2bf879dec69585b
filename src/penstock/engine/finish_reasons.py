"""Reads why a model stopped out of the engine's own bytes, for traces. Pure.

It runs once for each traced attempt. No JSON is parsed: a key with unescaped quotes cannot be a
part of a model's text, because inside a JSON string every quote is escaped.
"""

from typing import Final

from penstock.records.request import Api

# The key of chat and completions, and the key of Messages.
FINISH_KEY: Final = b'"finish_reason":'
STOP_KEY: Final = b'"stop_reason":'
# How many bytes behind its key a reason is looked for. All known reasons are shorter.
REASON_BYTES: Final = 48
# Behind the reason come the counts of tokens, and a few fields of the engine's own.
_END_BYTES: Final = 4096
_QUOTE: Final = b'"'


def read_reasons(text: bytes, key: bytes, choices: int) -> tuple[str, ...]:
    """Return the text behind each `key`, in order, for so many choices; a null is left out."""
    reasons: list[str] = []
    at = 0
    while len(reasons) < choices:
        at = text.find(key, at)
        if at < 0:
            break
        at += len(key)
        value = text[at : at + REASON_BYTES].lstrip()
        end = value.find(_QUOTE, 1)
        if end > 0 and value.startswith(_QUOTE):
            reasons.append(value[1:end].decode("ascii", "replace"))
    return tuple(reasons)


def reasons_of_answer(api: Api, pieces: list[bytes], choices: int) -> tuple[str, ...]:
    """Return the finish reasons of a whole answer, one for each choice.

    That of a single choice is looked for at the answer's end, where engines write it.
    """
    if api is not Api.MESSAGES and api is not Api.CHAT and api is not Api.COMPLETIONS:
        return ()
    answer = _end_of(pieces) if choices == 1 else b"".join(pieces)
    if api is Api.MESSAGES:
        # A tool's arguments are an object there, whose keys the model chooses; the answer's own
        # key comes behind them.
        return read_reasons(answer[max(answer.rfind(STOP_KEY), 0) :], STOP_KEY, 1)
    return read_reasons(answer, FINISH_KEY, choices)


def _end_of(pieces: list[bytes]) -> bytes:
    """Return the last bytes of an answer that came in pieces: a few KB, however long it is."""
    end = b""
    for number in range(len(pieces) - 1, -1, -1):
        end = pieces[number][-_END_BYTES:] + end
        if len(end) >= _END_BYTES:
            break
    return end
