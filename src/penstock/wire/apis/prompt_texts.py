"""Texts that a body gives as one or several, each as words or as token ids, and as nothing else.

Engines take whole chats in the same place, with media that they would fetch: those are refused.
"""

from typing import Final

import msgspec
from msgspec import Raw

from penstock.errors import InvalidRequest
from penstock.wire.json_body import Fields, is_given

# An id is as much of the prompt as a word is, however few digits it has.
_ID_BYTES: Final = 4
_PIECE_BYTES: Final = 4096
_PIECES_MAX: Final = 256
_QUOTE: Final = ord('"')
_USER: Final = Raw(b'"user"')

_decoder = msgspec.json.Decoder(str | list[str | int | list[int]])


class PromptTexts(msgspec.Struct, frozen=True):
    """How many texts there are, and the bytes that they are estimated by."""

    count: int
    bytes: int
    # As routing tells prompts apart: what two of them have in common is found at their start.
    parts: list[Fields]


def read_texts(fields: Fields, name: str, texts_max: int) -> PromptTexts:
    """The texts in one field, which must be there."""
    if not is_given(fields, name):
        raise InvalidRequest(f"`{name}` is required.", param=name)
    raw = fields[name]
    if memoryview(raw)[0] == _QUOTE and len(raw) > len(b'""'):
        return PromptTexts(1, len(raw), _pieces(raw))
    try:
        texts = _decoder.decode(raw)
    except msgspec.DecodeError as bad:
        raise InvalidRequest(
            f"`{name}`: send a text, a list of texts, or token ids: {bad}", param=name
        ) from None
    except RecursionError:
        raise InvalidRequest(f"`{name}` is nested too deep.", param=name) from None
    if not texts:
        raise InvalidRequest(f"`{name}` is empty: send at least one text.", param=name)
    ids = sum([_ids(text) for text in texts])
    count = 1 if isinstance(texts[0], int) else len(texts)
    if count > texts_max:
        raise InvalidRequest(f"`{name}` may have at most {texts_max} texts.", param=name)
    return PromptTexts(count, max(len(raw), ids * _ID_BYTES), [{"role": _USER, "content": raw}])


def _ids(text: str | int | list[int]) -> int:
    if isinstance(text, list):
        return len(text)
    return int(isinstance(text, int))


def _pieces(raw: Raw) -> list[Fields]:
    """A text in pieces of one size: where it grew, or another begins alike, the first are equal."""
    view = memoryview(raw)
    ends = [*range(_PIECE_BYTES, len(view), _PIECE_BYTES)][: _PIECES_MAX - 1]
    starts = [0, *ends]
    return [
        {"role": _USER, "content": Raw(view[start:end])}
        for start, end in zip(starts, [*ends, len(view)], strict=True)
    ]
