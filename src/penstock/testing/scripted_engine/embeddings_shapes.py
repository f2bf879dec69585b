"""Writes `/v1/embeddings` answers: each text has a vector of length 1, always the same."""

import base64
import math
import random
import struct
import zlib
from collections.abc import Callable, Iterator

import msgspec

from penstock.testing.scripted_engine.answer_shape import AnswerHead
from penstock.testing.scripted_engine.answer_usage import AnswerUsage
from penstock.testing.scripted_engine.engine_request import EngineRequest
from penstock.testing.scripted_engine.scripted_answers import ScriptedAnswer

DIMENSIONS = 16


class EmbeddingsShape:
    """Writes one answer; embeddings are never streamed."""

    def __init__(
        self,
        request: EngineRequest,
        head: AnswerHead,
        usage: AnswerUsage,
        new_id: Callable[[], str],
    ) -> None:
        self._request = request
        self._head = head
        self._usage = usage

    def events(self, answers: list[ScriptedAnswer]) -> Iterator[tuple[int, bytes]]:
        yield from ()

    def ending(self) -> bytes:
        return b""

    def whole(self, answers: list[ScriptedAnswer]) -> bytes:
        head = self._head
        is_base64 = self._request.echo["encoding_format"] == "base64"
        data = []
        for index, text in enumerate(self._request.prompts):
            vector = vector_of(text)
            shown = _packed(vector) if is_base64 else vector
            data.append({"index": index, "object": "embedding", "embedding": shown})
        body = {"id": head.id, "object": "list", "created": head.created, "model": head.model}
        usage = {"usage": self._usage.of_embeddings()} if self._usage.is_told else {}
        return msgspec.json.encode({**body, "data": data, **usage})


def vector_of(text: bytes) -> list[float]:
    numbers = random.Random(zlib.crc32(text))  # noqa: S311 - the same numbers for the same text
    values = [numbers.gauss(0, 1) for _ in range(DIMENSIONS)]
    length = math.sqrt(sum(value * value for value in values))
    return [value / length for value in values]


def _packed(vector: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
