"""What is logged of a request: one wide line of JSON. No prompt, no completion, no key.

Fields that have nothing to say are left out. The line is put together from texts, for each request
has one: an encoder would want a record with all its fields filled in first, and would encode again
and again what is the same for many requests.
"""

from datetime import UTC, datetime
from typing import Final

import msgspec

from penstock.records.request import InferenceRequest, Outcome, RequestEnd
from penstock.wire.decimals import six_digits, thousandths

_PATH_BYTES_MAX: Final = 256
_KEPT_MAX: Final = 2000
_OK: Final = Outcome.OK
_encode: Final = msgspec.json.Encoder().encode


class RequestLines:
    """Writes lines; keeps the text of this second, and of the names and paths of late."""

    def __init__(self) -> None:
        self._second = -1
        self._second_text = ""
        self._replicas = _Field("replica")
        self._sessions = _Field("session")
        self._workflows = _Field("workflow")
        self._paths: dict[bytes, str] = {}

    def line(self, at: float, request_id: str, target: bytes, about: str, end: RequestEnd) -> bytes:
        """The end of a request at `at`, in seconds since 1970.

        `about` is what `who` and `labels` say of it; empty if it was never understood.
        """
        outcome = "ok" if end.outcome is _OK else end.outcome.value
        return (
            f'{{"time":"{self._time(at)}","event":"request","request":"{request_id}",'
            f'"status":{end.status},"outcome":"{outcome}"{about}{self._tries(end)}'
            f"{self._path(target)}{_millis('queue_ms', end.waited_seconds)}{_first_token(end)}"
            f"{_millis('total_ms', end.total_seconds)}{_tokens(end)}}}\n"
        ).encode()

    def labels(self, request: InferenceRequest, cost_usd: str) -> str:
        """What a request says of itself, and what it cost; a cost may be empty."""
        session = self._sessions.text(request.session) if request.session else ""
        stream = ',"stream":true' if request.is_stream else ""
        workflow = self._workflows.text(request.workflow) if request.workflow else ""
        caller = request.caller_request_id
        if caller:
            caller = f',"caller_request":{_quoted(caller)}'
        cost = f',"cost_usd":"{cost_usd}"' if cost_usd else ""
        return f"{session}{stream}{workflow}{caller}{cost}"

    def _time(self, at: float) -> str:
        second = int(at)
        if second != self._second:
            self._second = second
            self._second_text = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        return f"{self._second_text}.{six_digits(int((at - second) * 1e6))}Z"

    def _tries(self, end: RequestEnd) -> str:
        replica = self._replicas.text(end.replica) if end.replica else ""
        attempts = f',"attempts":{end.attempts}' if end.attempts else ""
        error = f',"error":"{end.error_code}"' if end.error_code else ""
        return f"{replica}{attempts}{error}"

    def _path(self, target: bytes) -> str:
        """Without its query, and not all of a very long one."""
        known = self._paths.get(target)
        if known is None:
            path = target.partition(b"?")[0][:_PATH_BYTES_MAX].decode("latin-1")
            known = f',"path":{_quoted(path)}' if path else ""
            if len(target) <= _PATH_BYTES_MAX:
                if len(self._paths) >= _KEPT_MAX:
                    self._paths.clear()
                self._paths[target] = known
        return known


class _Field:
    """A field whose values come again and again: each is encoded once, and kept for a while."""

    __slots__ = ("_known", "_name")

    def __init__(self, name: str) -> None:
        self._name = name
        self._known: dict[str, str] = {}

    def text(self, value: str) -> str:
        known = self._known.get(value)
        if known is None:
            if len(self._known) >= _KEPT_MAX:
                self._known.clear()
            known = self._known[value] = f',"{self._name}":{_quoted(value)}'
        return known


def who(account: str, key: str, model: str) -> str:
    """Whose request it was and for what: the same for most requests of a key, so to be kept."""
    return f',"account":{_quoted(account)},"key":{_quoted(key)},"model":{_quoted(model)}'


def _quoted(text: str) -> str:
    return _encode(text).decode()


def _millis(name: str, seconds: float) -> str:
    # By cutting: rounding would cost as much as all the rest of the line.
    micros = int(seconds * 1e6)
    return f',"{name}":{thousandths(micros)}' if micros > 0 else ""


def _first_token(end: RequestEnd) -> str:
    first = end.first_token_seconds
    return "" if first is None else f',"first_token_ms":{thousandths(max(int(first * 1e6), 0))}'


def _tokens(end: RequestEnd) -> str:
    """As the engine counted them; missing is unknown, not 0."""
    usage = end.usage
    if usage is None:
        return ""
    cached = "" if usage.cached_tokens is None else f',"cached_tokens":{usage.cached_tokens}'
    return (
        f',"prompt_tokens":{usage.prompt_tokens}{cached},"output_tokens":{usage.completion_tokens}'
    )
