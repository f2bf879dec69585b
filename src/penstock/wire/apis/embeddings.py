"""Reads requests for embeddings in OpenAI's or Workers AI's shape; writes answers in the latter.

Nothing is streamed and no token is generated: only the input texts are counted.
"""

import base64
import binascii
from typing import Final, Literal

import msgspec
from msgspec import Raw

from penstock.errors import EngineFailed, InvalidRequest
from penstock.wire.apis.prompt_fields import take_options, weigh, workflow_of
from penstock.wire.apis.prompt_request import CACHE_KEY, PromptRequest
from penstock.wire.apis.prompt_texts import read_texts
from penstock.wire.json_body import Field, Fields, is_given
from penstock.wire.prompt.media import Media

# OpenAI's own bound.
_TEXTS_MAX: Final = 2048
_FLOAT_BYTES: Final = 4
_LOOKED_AT: Final = frozenset({"input", "encoding_format"})
# With these fields an engine would read a chat, and fetch its media.
_CHAT_FIELDS: Final = ("messages", "chat_template")
# An engine's raw bytes, another format, are refused: they contain no usage.
_FORMAT = Field("encoding_format", msgspec.json.Decoder(Literal["float", "base64"] | None), None)
_MEANINGLESS: Final = ("stream", "stream_options")


class _Row(msgspec.Struct):
    embedding: Raw


class _Answer(msgspec.Struct):
    data: list[_Row]


_answer_decoder = msgspec.json.Decoder(_Answer)
_vector_decoder = msgspec.json.Decoder(list[float] | str)


def read_embeddings(fields: Fields, media_hosts: frozenset[str]) -> PromptRequest:
    """Read and check one request. `fields` is changed: Workers AI's `text` becomes `input`."""
    del media_hosts  # There are no media in a text.
    _rename(fields)
    for name in _CHAT_FIELDS:
        if is_given(fields, name):
            raise InvalidRequest(f"`{name}` is not taken: send `input`.", param=name)
    for name in _MEANINGLESS:
        fields.pop(name, None)
    texts = read_texts(fields, "input", _TEXTS_MAX)
    _FORMAT.read(fields)
    return PromptRequest(
        fields=fields,
        messages=texts.parts,
        media=Media(),
        prompts=texts.count,
        cache_key=CACHE_KEY.read(fields) or "",
        options=take_options(fields),
        prompt_bytes=texts.bytes + weigh(fields, _LOOKED_AT),
        max_tokens=0,
        workflow=workflow_of(fields),
    )


def workers_ai_embeddings(answer: bytes) -> bytes:
    """Convert OpenAI's answer to `{"shape": [texts, numbers], "data": [vectors as they came]}`."""
    try:
        rows = [row.embedding for row in _answer_decoder.decode(answer).data]
        vector = _vector_decoder.decode(rows[0])
        if isinstance(vector, str):
            vector_length = len(base64.b64decode(vector, validate=True)) // _FLOAT_BYTES
        else:
            vector_length = len(vector)
    except (msgspec.DecodeError, RecursionError, IndexError, binascii.Error) as bad:
        raise EngineFailed(f"The engine's answer has no known shape: {bad}") from None
    data = b",".join([bytes(row) for row in rows])
    return b'{"shape":[%d,%d],"data":[%b]}' % (len(rows), vector_length, data)


def _rename(fields: Fields) -> None:
    if not is_given(fields, "text"):
        return
    if is_given(fields, "input"):
        raise InvalidRequest("Send `text` or `input`, not both.", param="text")
    if is_given(fields, "pooling"):
        # Workers AI offers two poolings: an engine is started with one, and cannot change it.
        raise InvalidRequest(
            "`pooling` is not taken: it is chosen where the engine is started.", param="pooling"
        )
    fields["input"] = fields.pop("text")
