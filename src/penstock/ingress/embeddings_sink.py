"""Embeddings on their way to a client of `/ai/run`."""

from penstock.ingress.sinks import ClientSink
from penstock.wire.embeddings import workers_ai_embeddings
from penstock.wire.workers_ai import envelope


class EmbeddingsRunSink(ClientSink):
    """Workers AI's shape: the vectors and their dimensions, in the envelope."""

    __slots__ = ()

    def shape_whole(self, answer: bytes) -> bytes:
        return envelope(workers_ai_embeddings(answer))
