"""The events of a container's kernel. Code in the container can write them too: trust none."""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

PATH_CHARACTERS_MAX: Final = 255
_Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class Ready(msgspec.Struct, frozen=True, tag="ready", tag_field="type"):
    """The kernel has started."""


class Output(msgspec.Struct, frozen=True, tag="out", tag_field="type"):
    """Text that code wrote."""

    stream: Literal["stdout", "stderr"]
    text: str


class ShownValue(msgspec.Struct, frozen=True, tag="show", tag_field="type"):
    """The value of a last line: its `repr`, or HTML."""

    media: Literal["text/plain", "text/html"]
    text: str


class Picture(msgspec.Struct, frozen=True, tag="image", tag_field="type"):
    """A part of a PNG image; the last part has `more` false."""

    data: bytes
    more: bool


class Failed(msgspec.Struct, frozen=True, tag="error", tag_field="type"):
    """An exception, with the traceback that a model can read."""

    name: Annotated[str, Meta(max_length=200)]
    text: str


class FileEntry(msgspec.Struct, frozen=True):
    """A file below /mnt/data; `mtime` is in nanoseconds."""

    path: Annotated[str, Meta(max_length=PATH_CHARACTERS_MAX)]
    bytes: _Count
    mtime: _Count


class FileListing(msgspec.Struct, frozen=True, tag="files", tag_field="type"):
    """The files below /mnt/data."""

    files: Annotated[list[FileEntry], Meta(max_length=1000)]


class Content(msgspec.Struct, frozen=True, tag="data", tag_field="type"):
    """A part of a file's content."""

    data: bytes


class Done(msgspec.Struct, frozen=True, tag="done", tag_field="type"):
    """The request has ended."""


CallEvent = Output | ShownValue | Picture | Failed
KernelEvent = Ready | CallEvent | FileListing | Content | Done

EVENT_BYTES_MAX: Final = 2**20
_decoder: Final[msgspec.json.Decoder[KernelEvent]] = msgspec.json.Decoder(KernelEvent)


def read_event(body: bytes) -> KernelEvent:
    """Decode one event; a malformed one raises ValueError."""
    try:
        return _decoder.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as bad:
        raise ValueError(f"a malformed event: {bad}") from None
