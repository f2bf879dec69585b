"""Writes the log line of a request: one wide line of JSON. No prompt, completion or secret.

Empty fields are left out. The line is joined from pieces for speed, because each request has one:
an encoder would need a record with all its fields first, and would encode the values that many
requests share again each time.
"""

from datetime import UTC, datetime
from typing import Final

import msgspec

from penstock.records.decimals import six_digits, thousandths, whole
from penstock.records.request import InferenceRequest, Outcome, RequestEnd, RequestLabels
from penstock.records.trace import RequestTrace

_PATH_BYTES_MAX: Final = 256
_KEPT_MAX: Final = 2000
_QUEUE: Final = b',"queue_ms":'
_TOTAL: Final = b',"total_ms":'
_encode: Final = msgspec.json.Encoder().encode


class RequestLines:
    """Writes lines; caches the text of the current second, and of recent names and paths."""

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
        """Return the line of a request that ended at `at`, in seconds since 1970.

        `about` is the text of `who`, `labels` and `trace_field`, as far as they are known.
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
        """Return the fields of a request's labels and its cost, which may be empty."""
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
        """Return `at` in whole seconds, and cache the text of that second."""
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
        """Return the path field, without the query and cut to `_PATH_BYTES_MAX`."""
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
    """A field whose values recur: each is encoded once and cached for a while."""

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
    """Return the account, key and model fields, which callers cache because they recur."""
    named = (_encode(account), _encode(key), _encode(model))
    return b',"account":%s,"key":%s,"model":%s' % named


def trace_field(trace: RequestTrace) -> bytes:
    """Return the field of a traced request's trace."""
    return b',"trace":"%s"' % trace.trace_id.encode()


def _belongs_to(labels: RequestLabels) -> bytes:
    """Return the fields from `parent` to `model_asked` that the request has."""
    text = b""
    if labels.parent_id:
        text += b',"parent":%s' % _encode(labels.parent_id)
    if labels.purpose:
        text += b',"purpose":%s' % _encode(labels.purpose)
    if labels.contract:
        text += b',"contract":%s' % _encode(labels.contract)
    if labels.task:
        text += b',"task":%s' % _encode(labels.task)
    if labels.model_asked:
        text += b',"model_asked":%s' % _encode(labels.model_asked)
    return text


def _millis(name: bytes, seconds: float) -> bytes:
    # Truncated, because rounding would cost as much as the rest of the line.
    micros = int(seconds * 1e6)
    return b"%s%s" % (name, thousandths(micros)) if micros > 0 else b""


def _first_token(end: RequestEnd) -> bytes:
    first = end.first_token_seconds
    if first is None:
        return b""
    return b',"first_token_ms":%s' % thousandths(max(int(first * 1e6), 0))


def _tokens(end: RequestEnd) -> bytes:
    """Return the token counts of `end`; a missing field means unknown, not 0."""
    usage = end.usage
    if usage is None:
        return b""
    cached = usage.cached_tokens
    return b',"prompt_tokens":%s%s,"output_tokens":%s' % (
        whole(usage.prompt_tokens),
        b"" if cached is None else b',"cached_tokens":%s' % whole(cached),
        whole(usage.completion_tokens),
    )
