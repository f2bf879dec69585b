"""Reads `/v1/embeddings` bodies for the scripted engine.

It supports the formats of numbers and base64, and refuses vLLM's raw bytes.
"""

from typing import Literal

import msgspec

from penstock.testing.scripted_engine.chat_request import Texts, texts_of
from penstock.testing.scripted_engine.engine_request import (
    EngineRequest,
    RequestRefusedError,
    Served,
    check_prompt,
    check_salt,
    decode,
)


class _Body(msgspec.Struct, frozen=True):
    input: Texts
    model: str | None = None
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = None
    priority: int = 0
    cache_salt: str | None = None


_decoder = msgspec.json.Decoder(_Body)


def read_embeddings(payload: bytes, served: Served) -> EngineRequest:
    """Read a body. `n` is 0, because embeddings have no generated answers."""
    body = decode(_decoder, payload)
    if body.model is not None and body.model != served.model:
        raise RequestRefusedError(404, f"The model `{body.model}` does not exist.")
    check_salt(body.cache_salt)
    texts = texts_of(body.input)
    if not texts or not all(texts):
        message = "The decoder prompt cannot be empty" if texts else _NO_TEXTS
        raise RequestRefusedError(400, message)
    if body.dimensions is not None:
        message = (
            f"Model '{served.model}' does not support Matryoshka embeddings; dimensions must be "
            f"unset (received dimensions={body.dimensions})."
        )
        raise RequestRefusedError(400, message)
    for text in texts:
        check_prompt(text, served)
    return EngineRequest(
        prompts=texts,
        last_user_text=texts[-1].decode(),
        n=0,
        priority=body.priority,
        cache_salt=body.cache_salt or "",
        echo={"encoding_format": body.encoding_format},
    )


_NO_TEXTS = "You must pass at least one prompt"
