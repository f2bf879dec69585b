"""Relays the events of a server that speaks OpenAI's API, whichever way it writes JSON.

`EventStream` knows how vLLM writes; this parses each event instead, because white space, the order
of fields and line ends differ between servers.
"""

from typing import Final

from penstock.engine.answer_stream import AnswerStream
from penstock.engine.output_estimate import OutputEstimate
from penstock.engine.whole_events import END, cut_whole
from penstock.records.usage import Usage
from penstock.wire.engine_usage import counts_of, read_chunk, write_usage

_DATA: Final = b"data:"
_DONE: Final = b"[DONE]"


class PlainEvents(AnswerStream):
    """Relays whole events; drops the chunk with the final count if the caller did not ask for it.

    Until that chunk has come, and where a server sends none, the usage is an estimate.
    """

    def __init__(
        self, *, wants_usage: bool, event_bytes_max: int, estimate: OutputEstimate
    ) -> None:
        super().__init__()
        self._wants_usage = wants_usage
        self._event_bytes_max = event_bytes_max
        self._estimate = estimate
        self._tail = b""
        self._usage: Usage | None = None

    def feed(self, data: bytes) -> bytes:
        data = self._tail + data
        # A carriage return in JSON text is escaped, so that these end lines.
        data, self._tail = cut_whole(data.replace(b"\r\n", b"\n"), self._event_bytes_max)
        if not data:
            return b""
        events = (event + END for event in data[: -len(END)].split(END))
        return b"".join([event for event in events if self._takes(event)])

    def usage(self) -> Usage | None:
        return self._usage or self._estimate.usage()

    def latest(self) -> bytes | None:
        usage = self.usage()
        return None if usage is None else write_usage(usage)

    def _takes(self, event: bytes) -> bool:
        """Note what an event says; return whether it goes to the caller."""
        if not event.startswith(_DATA):
            return True
        content = event[len(_DATA) :].strip()
        if content == _DONE:
            self.is_done = True
            return True
        chunk = read_chunk(content)
        if chunk is None or chunk.choices:
            self._estimate.add(0)
        if chunk is None:
            return True
        if chunk.error is not None:
            self.has_error = True
        if chunk.usage is not None:
            self._usage = counts_of(chunk.usage)
        is_count = chunk.usage is not None and not chunk.choices
        return self._wants_usage or not is_count
