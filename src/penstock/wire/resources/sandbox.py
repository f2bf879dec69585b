"""What gateways and sandbox hosts say to each other, as JSON and lines of JSON.

A gateway trusts a sandbox host to count and to bound. It does not trust the texts and the names in
these messages: code in a container chose them.
"""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

PATH_CHARACTERS_MAX: Final = 255
FILES_MAX: Final = 1000
_Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class Output(msgspec.Struct, frozen=True, tag="out", tag_field="type"):
    """Text that code wrote."""

    stream: Literal["stdout", "stderr"]
    text: str


class ShownValue(msgspec.Struct, frozen=True, tag="show", tag_field="type"):
    """The value of a last line: its `repr`, or HTML."""

    media: Literal["text/plain", "text/html"]
    text: str


class Failed(msgspec.Struct, frozen=True, tag="error", tag_field="type"):
    """An exception, with the traceback that a model can read."""

    name: Annotated[str, Meta(max_length=200)]
    text: str


class FileEntry(msgspec.Struct, frozen=True):
    """A file below /mnt/data; `mtime` is in nanoseconds."""

    path: Annotated[str, Meta(max_length=PATH_CHARACTERS_MAX)]
    bytes: _Count
    mtime: _Count


class WholePicture(msgspec.Struct, frozen=True, tag="picture", tag_field="type"):
    """A PNG image that a call has drawn."""

    data: bytes


class ChangedFiles(msgspec.Struct, frozen=True, tag="changed", tag_field="type"):
    """The files below /mnt/data that a call has made or changed, at its end."""

    files: Annotated[list[FileEntry], Meta(max_length=FILES_MAX)]


class ContainerLost(msgspec.Struct, frozen=True, tag="lost", tag_field="type"):
    """The call has cost the container its life; `reason` can be told to the model."""

    reason: str


class CallEnded(msgspec.Struct, frozen=True, tag="ended", tag_field="type"):
    """The last line of a call. The container is there for the next one."""

    seconds: float


CallLine = Output | ShownValue | Failed | WholePicture | ChangedFiles | ContainerLost | CallEnded


class SandboxStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What a sandbox host offers now. Another `boot` means that all of its containers are gone."""

    boot: str
    driver: str
    isolation: str
    is_dev: bool
    memory_tiers_mb: list[int]
    containers: int
    containers_max: int
    warm: int


class NewContainer(msgspec.Struct, frozen=True, kw_only=True):
    """A container that a gateway asks for. The host ends it by itself after either time."""

    memory_mb: Annotated[int, Meta(ge=1)]
    idle_seconds: Annotated[float, Meta(gt=0)]
    life_seconds: Annotated[float, Meta(gt=0)]


class StartedContainer(msgspec.Struct, frozen=True):
    """The answer: of which boot it is, and whether it was warm."""

    boot: str
    was_warm: bool


class CodeCall(msgspec.Struct, frozen=True, kw_only=True):
    """Code to run. A `call_id` that the container has run before gives its lines again."""

    call_id: Annotated[str, Meta(min_length=1, max_length=128)]
    code: str
    seconds: Annotated[float, Meta(gt=0)] | None = None


class FileNames(msgspec.Struct, frozen=True):
    """The files below /mnt/data."""

    files: list[FileEntry]


RefusalCode = Literal[
    "unauthorized", "not_found", "malformed", "too_large", "full", "busy", "lost", "refused"
]


class SandboxRefusal(msgspec.Struct, frozen=True):
    """The body of a sandbox host's 4xx and 5xx."""

    code: RefusalCode
    message: str
