"""What a sandbox host answers instead of doing what it was asked."""

from typing import Final

from penstock.wire.resources.sandbox import RefusalCode, SandboxRefusal

_STATUS: Final[dict[RefusalCode, int]] = {
    "unauthorized": 401,
    "not_found": 404,
    "malformed": 400,
    "too_large": 413,
    "full": 503,
    "busy": 409,
    "lost": 404,
    "refused": 409,
}


class SandboxRefused(Exception):
    """Ends a request with this refusal."""

    def __init__(self, code: RefusalCode, message: str) -> None:
        super().__init__(message)
        self.status = _STATUS[code]
        self.body = SandboxRefusal(code, message)
