"""Reads a field with one text or several, each as a string or as token ids.

Engines accept whole chats in the same field, with media that they would fetch: those are refused.
"""

from typing import Final

import msgspec
from msgspec import Raw

from penstock.errors import InvalidRequest
from penstock.wire.json_body import Fields, is_given

# How many bytes of prompt a token id counts as, however few digits it has.
_ID_BYTES: Final = 4
_PIECE_BYTES: Final = 4096
_PIECES_MAX: Final = 256
_QUOTE: Final = ord('"')
_USER: Final = Raw(b'"user"')

_decoder = msgspec.json.Decoder(str | list[str | int | list[int]])


class PromptTexts(msgspec.Struct, frozen=True):
    """The number of texts, and the bytes that their tokens are estimated from."""

    count: int
    bytes: int
    # The texts as messages for routing, which finds what two prompts share at their start.
    parts: list[Fields]


def read_texts(fields: Fields, name: str, texts_max: int) -> PromptTexts:
    """Read the texts in one field, which is required."""
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
    """Split a text into pieces of one size: texts that begin alike have equal first pieces."""
    view = memoryview(raw)
    ends = [*range(_PIECE_BYTES, len(view), _PIECE_BYTES)][: _PIECES_MAX - 1]
    starts = [0, *ends]
    return [
        {"role": _USER, "content": Raw(view[start:end])}
        for start, end in zip(starts, [*ends, len(view)], strict=True)
    ]
