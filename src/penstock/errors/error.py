"""The root of all errors that cross a room."""

from typing import ClassVar


class Error(Exception):
    """Something went wrong."""

    code: ClassVar[str] = "error"
    status: ClassVar[int] = 500  # on /v1; `ingress/error_response.py` alone maps errors to HTTP
    retryable: ClassVar[bool] = False

    def __init__(
        self, message: str | None = None, *, param: str | None = None,
        retry_after_seconds: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(message or (self.__doc__ or self.code).strip().splitlines()[0])
        self.param = param
        self.retry_after_seconds = retry_after_seconds
        # The decision of a contract that this error is, which is logged before the error is sent.
        self.decided: object | None = None

    @property
    def message(self) -> str:
        return str(self.args[0])

    @property
    def is_retryable(self) -> bool:
        """Whether trying again is safe and may help; the class decides, mostly."""
        return self.retryable
