"""What is logged of a request: one wide line of JSON. No prompt, no completion, no key.

Fields that have nothing to say are left out. The line is put together from pieces, for each request
has one: an encoder would want a record with all its fields filled in first, and would encode again
and again what is the same for many requests.
"""

from datetime import UTC, datetime
from typing import Final

import msgspec

from penstock.records.decimals import six_digits, thousandths, whole
from penstock.records.request import InferenceRequest, Outcome, RequestEnd, RequestLabels

_PATH_BYTES_MAX: Final = 256
_KEPT_MAX: Final = 2000
_QUEUE: Final = b',"queue_ms":'
_TOTAL: Final = b',"total_ms":'
_encode: Final = msgspec.json.Encoder().encode


class RequestLines:
    """Writes lines; keeps the text of this second, and of the names and paths of late."""

    def __init__(self) -> None:
        self._second = -1
        self._second_text = b""
        self._replicas = _Field(b"replica")
        self._sessions = _Field(b"session")
        self._workflows = _Field(b"workflow")
        self._paths: dict[bytes, bytes] = {}

    def line(
        self, at: float, request_id: str, target: bytes, about: bytes, end: RequestEnd
    ) -> bytes:
        """The end of a request at `at`, in seconds since 1970.

        `about` is what `who` and `labels` say of it; empty if it was never understood.
        """
        micros = int((at - self._at_second(at)) * 1e6)
        return (
            b'{"time":"%s.%sZ","event":"request","request":"%s","status":%s,"outcome":"%s"'
            b"%s%s%s%s%s%s%s}\n"
        ) % (
            self._second_text,
            six_digits(micros),
            request_id.encode(),
            whole(end.status),
            b"ok" if end.outcome is Outcome.OK else end.outcome.value.encode(),
            about,
            self._tries(end),
            self._path(target),
            _millis(_QUEUE, end.waited_seconds),
            _first_token(end),
            _millis(_TOTAL, end.total_seconds),
            _tokens(end),
        )

    def labels(self, request: InferenceRequest, cost_usd: bytes) -> bytes:
        """What a request says of itself, and what it cost; a cost may be empty."""
        labels = request.labels
        session = self._sessions.text(labels.session) if labels.session else b""
        stream = b',"stream":true' if request.prompt.is_stream else b""
        workflow = self._workflows.text(labels.workflow) if labels.workflow else b""
        caller, theirs = labels.caller_request_id, b""
        if caller:
            theirs = b',"caller_request":%s' % _encode(caller)
        cost = b',"cost_usd":"%s"' % cost_usd if cost_usd else b""
        return b"%s%s%s%s%s%s" % (session, stream, workflow, theirs, _belongs_to(labels), cost)

    def _at_second(self, at: float) -> int:
        """The second in which this is, whose text is kept."""
        second = int(at)
        if second != self._second:
            self._second = second
            text = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
            self._second_text = text.encode()
        return second

    def _tries(self, end: RequestEnd) -> bytes:
        replica = self._replicas.text(end.replica) if end.replica else b""
        attempts = b',"attempts":%s' % whole(end.attempts) if end.attempts else b""
        error = b',"error":"%s"' % end.error_code.encode() if end.error_code else b""
        return b"%s%s%s" % (replica, attempts, error)

    def _path(self, target: bytes) -> bytes:
        """Without its query, and not all of a very long one."""
        known = self._paths.get(target)
        if known is None:
            path = target.partition(b"?")[0][:_PATH_BYTES_MAX].decode("latin-1")
            known = b',"path":%s' % _encode(path) if path else b""
            if len(target) <= _PATH_BYTES_MAX:
                if len(self._paths) >= _KEPT_MAX:
                    self._paths.clear()
                self._paths[target] = known
        return known


class _Field:
    """A field whose values come again and again: each is encoded once, and kept for a while."""

    def __init__(self, name: bytes) -> None:
        self._name = name
        self._known: dict[str, bytes] = {}

    def text(self, value: str) -> bytes:
        known = self._known.get(value)
        if known is None:
            if len(self._known) >= _KEPT_MAX:
                self._known.clear()
            known = b',"%s":%s' % (self._name, _encode(value))
            self._known[value] = known
        return known


def who(account: str, key: str, model: str) -> bytes:
    """Whose request it was and for what: the same for most requests of a key, so to be kept."""
    named = (_encode(account), _encode(key), _encode(model))
    return b',"account":%s,"key":%s,"model":%s' % named


def _belongs_to(labels: RequestLabels) -> bytes:
    """The turn, contract and task of a request, where it has them."""
    named = (
        (b"parent", labels.parent_id),
        (b"purpose", labels.purpose),
        (b"contract", labels.contract),
        (b"task", labels.task),
        (b"model_asked", labels.model_asked),
    )
    return b"".join([b',"%s":%s' % (name, _encode(value)) for name, value in named if value])


def _millis(name: bytes, seconds: float) -> bytes:
    # Cut off, not rounded: rounding would cost as much as all the rest of the line.
    micros = int(seconds * 1e6)
    return b"%s%s" % (name, thousandths(micros)) if micros > 0 else b""


def _first_token(end: RequestEnd) -> bytes:
    first = end.first_token_seconds
    if first is None:
        return b""
    return b',"first_token_ms":%s' % thousandths(max(int(first * 1e6), 0))


def _tokens(end: RequestEnd) -> bytes:
    """As the engine counted them; missing is unknown, not 0."""
    usage = end.usage
    if usage is None:
        return b""
    cached = usage.cached_tokens
    return b',"prompt_tokens":%s%s,"output_tokens":%s' % (
        whole(usage.prompt_tokens),
        b"" if cached is None else b',"cached_tokens":%s' % whole(cached),
        whole(usage.completion_tokens),
    )
