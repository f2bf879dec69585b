"""Headers that let scripts in a browser read answers of inference."""

from typing import Final

from penstock.ingress.inference.contract_headers import NAMES as CONTRACT_HEADERS
from penstock.ingress.inference.route_headers import NAMES as ROUTE_HEADERS

# The id of a request's trace, if it is traced.
TRACE_HEADER: Final = "x-penstock-trace"
# The answers' headers that scripts in a browser may read.
EXPOSED_HEADERS: Final = (
    "x-request-id", "retry-after", "x-should-retry", "x-penstock-cost-usd",
    "x-penstock-limit-warning", "x-ratelimit-limit-requests", "x-ratelimit-remaining-requests",
    "x-ratelimit-reset-requests", "x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens",
    "x-ratelimit-reset-tokens", "location", "preference-applied", TRACE_HEADER, *ROUTE_HEADERS,
    *CONTRACT_HEADERS,
)  # fmt: skip
_EXPOSED: Final = b"access-control-expose-headers: %s\r\n" % ", ".join(EXPOSED_HEADERS).encode()


def cors_lines(allowed: tuple[str, ...], headers: list[tuple[bytes, bytes]]) -> bytes:
    """Return the lines for a request's origin; nothing if that is not allowed."""
    origin = next((value for name, value in headers if name == b"origin"), b"")
    if "*" in allowed:
        return b"access-control-allow-origin: *\r\n" + _EXPOSED
    if origin and origin.decode("latin-1") in allowed:
        return b"access-control-allow-origin: %s\r\nvary: Origin\r\n%s" % (origin, _EXPOSED)
    return b""
