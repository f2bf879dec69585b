"""The events of a container's kernel. Code in the container can write them too: trust none."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

_Name = Annotated[str, Meta(max_length=200)]


class Ready(msgspec.Struct, frozen=True, tag="ready", tag_field="type"):
    """The kernel has started."""


class Output(msgspec.Struct, frozen=True, tag="out", tag_field="type"):
    """Text that code wrote to `stdout` or `stderr`."""

    stream: _Name
    text: str


class Shown(msgspec.Struct, frozen=True, tag="show", tag_field="type"):
    """The value of a last line: its `repr`, or HTML."""

    media: _Name
    text: str


class Picture(msgspec.Struct, frozen=True, tag="image", tag_field="type"):
    """A part of a PNG image; the last part has `more` false."""

    data: bytes
    more: bool


class Failed(msgspec.Struct, frozen=True, tag="error", tag_field="type"):
    """An exception, with the traceback that a model can read."""

    name: _Name
    text: str


class FileEntry(msgspec.Struct, frozen=True):
    """A file below /mnt/data."""

    path: str
    bytes: int
    mtime: int


class Files(msgspec.Struct, frozen=True, tag="files", tag_field="type"):
    """All files below /mnt/data."""

    files: Annotated[list[FileEntry], Meta(max_length=1000)]


class Content(msgspec.Struct, frozen=True, tag="data", tag_field="type"):
    """A part of a file's content; the last part has `more` false."""

    data: bytes
    more: bool


class Done(msgspec.Struct, frozen=True, tag="done", tag_field="type"):
    """The request has ended."""


KernelEvent = Ready | Output | Shown | Picture | Failed | Files | Content | Done

EVENT_BYTES_MAX: Final = 2**20
_decoder: Final[msgspec.json.Decoder[KernelEvent]] = msgspec.json.Decoder(KernelEvent)


def read_event(body: bytes) -> KernelEvent:
    """Decode one event; a malformed one raises ValueError."""
    try:
        return _decoder.decode(body)
    except (msgspec.DecodeError, RecursionError) as bad:
        raise ValueError(f"a malformed event: {bad}") from None
