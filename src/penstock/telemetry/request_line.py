"""What is logged of a request: one wide line of JSON. No prompt, no completion, no key.

Fields that have nothing to say are left out. The line is put together from texts, for each request
has one: an encoder would want a record with all its fields filled in first, and would encode again
and again what is the same for many requests.
"""

from datetime import UTC, datetime
from typing import Final

import msgspec

from penstock.records.request import InferenceRequest, Outcome, RequestEnd

_PATH_BYTES_MAX: Final = 256
_KEPT_MAX: Final = 2000
_OK: Final = Outcome.OK
_encode: Final = msgspec.json.Encoder().encode


class RequestLines:
    """Writes lines; keeps the text of this second, and of the names and paths of late."""

    def __init__(self) -> None:
        self._second = -1
        self._second_text = ""
        self._names: dict[str, str] = {}
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
        session = caller = workflow = cost = ""
        if request.session:
            session = f',"session":{self._name(request.session)}'
        if request.caller_request_id:
            caller = f',"caller_request":{_quoted(request.caller_request_id)}'
        if request.workflow:
            workflow = f',"workflow":{self._name(request.workflow)}'
        if cost_usd:
            cost = f',"cost_usd":"{cost_usd}"'
        stream = ',"stream":true' if request.is_stream else ""
        return f"{session}{stream}{caller}{workflow}{cost}"

    def _time(self, at: float) -> str:
        second = int(at)
        if second != self._second:
            self._second = second
            self._second_text = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        # A one in front keeps the zeros.
        micros = str(1_000_000 + int((at - second) * 1e6))
        return f"{self._second_text}.{micros[1:]}Z"

    def _tries(self, end: RequestEnd) -> str:
        replica = f',"replica":{self._name(end.replica)}' if end.replica else ""
        attempts = f',"attempts":{end.attempts}' if end.attempts else ""
        error = f',"error":"{end.error_code}"' if end.error_code else ""
        return f"{replica}{attempts}{error}"

    def _name(self, name: str) -> str:
        known = self._names.get(name)
        if known is None:
            if len(self._names) >= _KEPT_MAX:
                self._names.clear()
            known = self._names[name] = _quoted(name)
        return known

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


def who(account: str, key: str, model: str) -> str:
    """Whose request it was and for what: the same for most requests of a key, so to be kept."""
    return f',"account":{_quoted(account)},"key":{_quoted(key)},"model":{_quoted(model)}'


def _quoted(text: str) -> str:
    return _encode(text).decode()


def _millis(name: str, seconds: float) -> str:
    # By cutting: rounding would cost as much as all the rest of the line.
    micros = int(seconds * 1e6)
    return f',"{name}":{_thousandths(micros)}' if micros > 0 else ""


def _thousandths(count: int) -> str:
    return f"{count // 1000}.{str(1000 + count % 1000)[1:]}"


def _first_token(end: RequestEnd) -> str:
    first = end.first_token_seconds
    return "" if first is None else f',"first_token_ms":{_thousandths(max(int(first * 1e6), 0))}'


def _tokens(end: RequestEnd) -> str:
    """As the engine counted them; missing is unknown, not 0."""
    usage = end.usage
    if usage is None:
        return ""
    cached = "" if usage.cached_tokens is None else f',"cached_tokens":{usage.cached_tokens}'
    return (
        f',"prompt_tokens":{usage.prompt_tokens}{cached},"output_tokens":{usage.completion_tokens}'
    )
