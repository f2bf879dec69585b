"""Reads the few request headers that matter."""

import hashlib
from typing import Final

from penstock.errors import InvalidRequest, Unauthenticated
from penstock.intake.labels import retry_number, task_label, workflow_label
from penstock.wire.http.prefer import Preference, read_prefer

_BEARER: Final = b"bearer "
_LABEL_CHARS_MAX: Final = 256
_SESSION_HEADERS: Final = (b"x-session-affinity", b"x-session-id", b"session-id")
_AUTHORIZATION: Final = b"authorization"
_API_KEY: Final = b"x-api-key"
_RARE: Final = (
    b"cf-aig-async", b"cf-aig-metadata", b"content-encoding", b"idempotency-key", b"prefer",
    b"x-penstock-cost", b"x-penstock-critical", b"x-penstock-max-cost-usd",
    b"x-penstock-reject-if-busy",
    b"x-penstock-task", b"x-penstock-workflow", b"x-request-id", b"x-stainless-retry-count",
)  # fmt: skip
# The headers that are read, and whether most requests come without them.
_READ: Final = dict.fromkeys((*_SESSION_HEADERS, _AUTHORIZATION, _API_KEY), False) | dict.fromkeys(
    _RARE, True
)
TRUE: Final = ("true", "1")
_sha256: Final = hashlib.sha256


class CallerHeaders:
    """A request's headers; the last of a name counts. A getter may raise for an invalid value."""

    def __init__(self, headers: list[tuple[bytes, bytes]]) -> None:
        by_name: dict[bytes, bytes] = {}
        has_more = False
        for name, value in headers:
            is_rare = _READ.get(name)
            if is_rare is not None:
                by_name[name] = value
                has_more = has_more or is_rare
        self._by_name = by_name
        self._secret_sha256 = b""
        self._session = _session(by_name)
        self._session_label = _label(self._session) if self._session else ""
        self._caller_request_id = ""
        self._client_retry: int | None = None
        self._cost_cap: str | None = None
        self._wants_cost = False
        self._wants_usage_cost = False
        self._rejects_if_busy = False
        self._workflow = b""
        self._workflow_label = ""
        self._workflow_in_metadata = b""
        self.has_preference = False
        if has_more:
            self._read_rare(by_name)

    def _read_rare(self, by_name: dict[bytes, bytes]) -> None:
        request_id = by_name.get(b"x-request-id")
        self._caller_request_id = _label(request_id) if request_id else ""
        retry = by_name.get(b"x-stainless-retry-count")
        self._client_retry = retry_number(retry) if retry else None
        cap = by_name.get(b"x-penstock-max-cost-usd")
        self._cost_cap = None if cap is None else _label(cap)
        cost = by_name.get(b"x-penstock-cost", b"")
        self._wants_cost = cost in (b"1", b"true")
        self._wants_usage_cost = cost == b"usage"
        rejects = by_name.get(b"x-penstock-reject-if-busy")
        self._rejects_if_busy = _label(rejects).lower() in TRUE if rejects else False
        self._workflow = by_name.get(b"x-penstock-workflow", b"")
        self._workflow_in_metadata = by_name.get(b"cf-aig-metadata", b"")
        self.has_preference = b"prefer" in by_name

    def secret(self) -> bytes:
        """Return the API key: `Authorization: Bearer`, or `x-api-key`."""
        value = self._by_name.get(_AUTHORIZATION, b"")
        if value[:7].lower() == _BEARER:
            secret = value[7:].strip()
        else:
            secret = self._by_name.get(_API_KEY, b"")
        if not secret:
            raise Unauthenticated
        return secret

    def secret_sha256(self) -> bytes:
        """Return the hash by which the key is looked up."""
        if not self._secret_sha256:
            self._secret_sha256 = _sha256(self.secret()).digest()
        return self._secret_sha256

    def session(self) -> bytes:
        """Return the session's name, as the caller wrote it."""
        return self._session

    def session_label(self) -> str:
        """Return the session's name, cut and safe to write."""
        return self._session_label

    def caller_request_id(self) -> str:
        return self._caller_request_id

    def refuse_encoding(self) -> None:
        encoding = self._by_name.get(b"content-encoding")
        if encoding is not None and encoding.lower() != b"identity":
            raise InvalidRequest(
                f"Content encoding `{_label(encoding)}` is not supported: send plain JSON."
            )

    def workflow(self, in_body: str) -> str:
        if not (self._workflow or self._workflow_in_metadata or in_body):
            return ""
        if self._workflow_label:
            return self._workflow_label
        name = workflow_label(self._workflow, self._workflow_in_metadata, in_body)
        if self._workflow:
            # Asked for twice under a contract. Without our header it depends on the body.
            self._workflow_label = name
        return name

    def task(self, body_metadata: bytes) -> str:
        """Return the class that the caller gives its request, for the contract of its workflow."""
        header = self._by_name.get(b"x-penstock-task", b"")
        if not (header or self._workflow_in_metadata or body_metadata):
            return ""
        return task_label(header, self._workflow_in_metadata, body_metadata)

    def is_uncritical(self) -> bool:
        """Return whether the caller lets a critical workflow's request fall back."""
        return self._by_name.get(b"x-penstock-critical") in (b"0", b"false")

    def client_retry(self) -> int | None:
        return self._client_retry

    def cost_cap(self) -> str | None:
        return self._cost_cap

    def wants_cost(self) -> bool:
        return self._wants_cost

    def wants_usage_cost(self) -> bool:
        """Return whether the cost shall stand in the answer's `usage`."""
        return self._wants_usage_cost

    def rejects_if_busy(self) -> bool:
        return self._rejects_if_busy

    def wants_task(self) -> bool:
        value = self._by_name.get(b"cf-aig-async")
        return _label(value).lower() in TRUE if value else False

    def preference(self) -> Preference | None:
        value = self._by_name.get(b"prefer")
        return read_prefer(value) if value else None

    def idempotency_key(self) -> str | None:
        """Return the whole key, never cut: two keys that begin alike are not the same."""
        value = self._by_name.get(b"idempotency-key")
        if not value:
            return None
        if len(value) > _LABEL_CHARS_MAX:
            raise InvalidRequest(
                f"`Idempotency-Key` must be at most {_LABEL_CHARS_MAX} characters."
            )
        return value.decode("latin-1")


def label(text: str) -> str:
    """Cut a caller's text and make it safe to write back and to log."""
    start = text[:_LABEL_CHARS_MAX]
    return start if start.isprintable() else "".join([c for c in start if c.isprintable()])


def _label(value: bytes) -> str:
    return label(value.decode("latin-1"))


def _session(by_name: dict[bytes, bytes]) -> bytes:
    for name in _SESSION_HEADERS:
        value = by_name.get(name)
        if value:
            return value
    return b""
