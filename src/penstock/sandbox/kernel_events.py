"""The events of a container's kernel. Code in the container can write them too: trust none."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from penstock.wire.resources.sandbox import FILES_MAX, Failed, FileEntry, Output, ShownValue


class Ready(msgspec.Struct, frozen=True, tag="ready", tag_field="type"):
    """The kernel has started."""


class Picture(msgspec.Struct, frozen=True, tag="image", tag_field="type"):
    """A part of a PNG image; the last part has `more` false."""

    data: bytes
    more: bool


class FileListing(msgspec.Struct, frozen=True, tag="files", tag_field="type"):
    """The files below /mnt/data."""

    files: Annotated[list[FileEntry], Meta(max_length=FILES_MAX)]


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
