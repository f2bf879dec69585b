"""Records the requests that the scripted engine receives, for tests to read."""

import os
from collections import deque
from typing import Any

import msgspec

_LOGGED_BODY_BYTES_MAX = 65_536


class Entry(msgspec.Struct):
    """One inference request; `outcome` and the count of tokens change while it runs."""

    id: str
    headers: dict[str, str]
    body: bytes
    outcome: str = "waiting"
    completion_tokens: int = 0

    def shown(self, body_bytes_max: int | None = None) -> dict[str, Any]:
        fields = msgspec.structs.asdict(self)
        fields["body"] = self.body[:body_bytes_max].decode("utf-8", "replace")
        return fields


class EngineLog:
    """Counters and the last requests; all requests in `file`, if one is given."""

    def __init__(self, limit: int, file: str = "") -> None:
        self._entries: deque[Entry] = deque(maxlen=limit)
        # Unbuffered, so that the file has every request of an engine that was killed.
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._file = os.open(file, flags, 0o644) if file else None
        self.requests = 0
        self.finished = 0
        self.aborted = 0
        self.refused = 0
        self.faulted = 0
        self.probes = 0

    def open(self, entry: Entry) -> None:
        self.requests += 1
        self._entries.append(entry)
        self._note("begun", entry)

    def close(self, entry: Entry, outcome: str) -> None:
        """Outcomes: finished, aborted (the client left), refused (4xx, 5xx), faulted (a script)."""
        entry.outcome = outcome
        setattr(self, outcome, getattr(self, outcome) + 1)
        self._note(outcome, entry)

    def shown(self) -> dict[str, Any]:
        last = self._entries[-1].shown() if self._entries else None
        return {
            "requests": self.requests,
            "finished": self.finished,
            "aborted": self.aborted,
            "refused": self.refused,
            "faulted": self.faulted,
            "probes": self.probes,
            "last_request": last,
            "requests_log": [entry.shown(_LOGGED_BODY_BYTES_MAX) for entry in self._entries],
        }

    def _note(self, event: str, entry: Entry) -> None:
        if self._file is not None:
            os.write(self._file, f"{event} {entry.id}\n".encode())
