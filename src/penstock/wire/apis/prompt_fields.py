"""Reads fields that all APIs share: options, required capabilities, prompt bytes, labels."""

import msgspec

from penstock.records.model import Capability
from penstock.wire.apis.chat_options import Options
from penstock.wire.apis.prompt_request import METADATA, NO_NEEDS, NO_OPTIONS, OPTIONS, TOOLS
from penstock.wire.json_body import DEPTH_MAX, Fields, is_container, refuse_deep_again
from penstock.wire.prompt.media import Media


def take_options(fields: Fields) -> Options:
    """Remove Workers AI's options from the body and return them: the engine knows none."""
    if "options" not in fields:
        return NO_OPTIONS
    options = OPTIONS.read(fields)
    del fields["options"]
    return options or NO_OPTIONS


def weigh(fields: Fields, looked_at: frozenset[str]) -> int:
    """Return the bytes of other fields that may be rendered: tools, documents, template arguments.

    Values nested too deep are refused. Fields in `looked_at` have readers of their own.
    """
    size = 0
    for name, value in fields.items():
        if name not in looked_at and is_container(value):
            refuse_deep_again(value, levels_max=DEPTH_MAX - 1, param=name)
            size += len(value)
    return size


def has_tools(fields: Fields) -> bool:
    if "tools" not in fields:
        return False
    # The body is valid JSON: an array that begins with an object is not empty.
    if bytes(memoryview(fields["tools"])[:2]) == b"[{":
        return True
    return bool(TOOLS.read(fields))


def needs_of(fields: Fields, media: Media, *, is_structured: bool) -> frozenset[Capability]:
    """Return the capabilities that the model must have."""
    needs = NO_NEEDS
    if media.images:
        needs = needs | {Capability.VISION}
    if has_tools(fields):
        needs = needs | {Capability.TOOLS}
    if is_structured:
        needs = needs | {Capability.STRUCTURED_OUTPUT}
    return needs


def workflow_of(fields: Fields) -> str:
    """Return the workflow in OpenAI's `metadata`. The caller's other labels are ignored."""
    if "metadata" not in fields:
        return ""
    try:
        metadata = METADATA.decode(fields["metadata"])
    except (msgspec.DecodeError, RecursionError):
        return ""
    return metadata.workflow if metadata is not None else ""
