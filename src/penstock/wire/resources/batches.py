"""OpenAI's files and batches: what clients send, what they read, and the lines of batch files."""

from enum import StrEnum
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Raw

from penstock.wire.resources.errors import OpenAIErrorAnswer

ENDPOINT: Final = "/v1/chat/completions"
_PREFIX: Final = "batch_"

KeepSeconds = Annotated[int, Meta(ge=3600, le=2_592_000)]


class FileObject(msgspec.Struct, frozen=True, kw_only=True):
    """A file without its content. Times are whole seconds since 1970."""

    id: str
    bytes: int
    created_at: int
    expires_at: int
    filename: str
    purpose: str
    object: str = "file"
    status: str = "processed"
    status_details: str | None = None


class FileList(msgspec.Struct, frozen=True, kw_only=True):
    """`GET /v1/files`."""

    data: list[FileObject]
    first_id: str | None
    last_id: str | None
    has_more: bool
    object: str = "list"


class FileDeleted(msgspec.Struct, frozen=True, kw_only=True):
    """`DELETE /v1/files/{id}`."""

    id: str
    object: str = "file"
    deleted: bool = True


class ExpiresAfter(msgspec.Struct, frozen=True):
    """How long a file is kept."""

    seconds: KeepSeconds
    anchor: Literal["created_at"] = "created_at"


class CreateBatch(msgspec.Struct, frozen=True):
    """`POST /v1/batches`."""

    input_file_id: Annotated[str, Meta(min_length=1, max_length=128)]
    endpoint: str
    completion_window: str
    metadata: (
        Annotated[
            dict[
                Annotated[str, Meta(max_length=64)],
                Annotated[str, Meta(max_length=512)],
            ],
            Meta(max_length=16),
        ]
        | None
    ) = None
    output_expires_after: ExpiresAfter | None = None


class BatchStatus(StrEnum):
    """validating → in_progress → finalizing → completed; the docs draw the rest."""

    VALIDATING = "validating"
    IN_PROGRESS = "in_progress"
    FINALIZING = "finalizing"
    COMPLETED = "completed"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"


class BatchError(msgspec.Struct, frozen=True):
    """What is wrong with a batch as a whole."""

    code: str
    message: str
    line: int | None = None
    param: str | None = None


class BatchErrors(msgspec.Struct, frozen=True):
    """The list of them."""

    data: list[BatchError]
    object: str = "list"


class RequestCounts(msgspec.Struct, frozen=True):
    """Lines by what became of them."""

    total: int = 0
    completed: int = 0
    failed: int = 0


class BatchObject(msgspec.Struct, frozen=True, kw_only=True):
    """A batch, as openai's SDK reads it."""

    id: str
    status: BatchStatus
    endpoint: str
    input_file_id: str
    created_at: int
    expires_at: int
    request_counts: RequestCounts
    completion_window: str = "24h"
    metadata: dict[str, str] | None = None
    errors: BatchErrors | None = None
    output_file_id: str | None = None
    error_file_id: str | None = None
    in_progress_at: int | None = None
    finalizing_at: int | None = None
    completed_at: int | None = None
    failed_at: int | None = None
    expired_at: int | None = None
    cancelling_at: int | None = None
    cancelled_at: int | None = None
    object: str = "batch"


class BatchList(msgspec.Struct, frozen=True, kw_only=True):
    """`GET /v1/batches`."""

    data: list[BatchObject]
    first_id: str | None
    last_id: str | None
    has_more: bool
    object: str = "list"


class InputLine(msgspec.Struct, frozen=True):
    """One line of an input file."""

    custom_id: Annotated[str, Meta(min_length=1, max_length=512)]
    method: str
    url: str
    body: Raw


class LineResponse(msgspec.Struct, frozen=True):
    """The answer to the request, with the status that it would have had by itself."""

    status_code: int
    request_id: str
    body: Raw | OpenAIErrorAnswer


class LineError(msgspec.Struct, frozen=True):
    """Why a request was not run at all."""

    code: str
    message: str


class AnswerLine(msgspec.Struct, frozen=True):
    """One line of an output or an error file."""

    id: str
    custom_id: str | None
    response: LineResponse | None
    error: LineError | None


_encoder = msgspec.json.Encoder()


def answer_line(line: AnswerLine) -> bytes:
    """Return the line as written in the file, with its line end."""
    return _encoder.encode(line) + b"\n"


def one_line(json: bytes) -> Raw:
    """Return a JSON text without line ends, which in JSON can only be between tokens."""
    return Raw(json.translate(_WITHOUT_LINE_ENDS))


def public_id(batch: str) -> str:
    """Return the id by which clients name a batch."""
    return _PREFIX + batch.replace("-", "")


def batch_of(public: str) -> str | None:
    """Return our own id of the batch that a client names; None where it cannot be one."""
    text = public.removeprefix(_PREFIX).replace("-", "")
    if len(text) != 32 or not set(text) <= _HEX:
        return None
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


_HEX: Final = frozenset("0123456789abcdef")
_WITHOUT_LINE_ENDS: Final = bytes.maketrans(b"\r\n", b"  ")
