"""What the path must know of a body, in whichever API it is written; and the fields all share.

Each API has a reader of its own (`chat`, `responses`, …) that ends in a `PromptRequest`. What they
do not read goes through to the engine untouched.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta, Raw

from penstock.records.model import Capability
from penstock.wire.json_body import DEPTH_MAX, Field, Fields, is_container, refuse_deep
from penstock.wire.messages import Media


class Options(msgspec.Struct, frozen=True):
    """Workers AI's options, as they come in a body."""

    reject_if_busy: bool | None = msgspec.field(default=None, name="rejectIfBusy")
    queue_request: bool | None = msgspec.field(default=None, name="queueRequest")


_NO_OPTIONS: Final = Options()
_NOTHING: Final = frozenset[Capability]()


class PromptRequest(msgspec.Struct, kw_only=True):
    """The fields that go on, and what the path must know about them."""

    fields: Fields
    # The parts of the prompt in their order, as routing tells them apart.
    messages: list[Fields]
    media: Media
    is_stream: bool = False
    wants_usage: bool = False
    wants_continuous_usage: bool = False
    # Answers in all; several texts have some each.
    choices: int = 1
    prompts: int = 1
    cache_key: str = ""
    conversation: str = ""
    options: Options = _NO_OPTIONS
    needs: frozenset[Capability] = frozenset()
    prompt_family: str = ""
    # Bytes of messages, tools and the like without their images, and images: what the prompt is
    # estimated by.
    prompt_bytes: int = 0
    images: int = 0
    # Tokens that one choice may have at most; None when the caller does not say. 0: none are made.
    max_tokens: int | None = None
    # What this API calls that limit.
    max_tokens_field: str = "max_tokens"
    workflow: str = ""


class _Metadata(msgspec.Struct):
    workflow: str = ""


MODEL = Field("model", msgspec.json.Decoder(str), "")
STREAM = Field("stream", msgspec.json.Decoder(bool | None), None)
CACHE_KEY = Field("prompt_cache_key", msgspec.json.Decoder(str | None), None)
OPTIONS = Field("options", msgspec.json.Decoder(Options | None), None)
TOKENS: Final = msgspec.json.Decoder(Annotated[int, Meta(ge=0)] | None)
_METADATA = msgspec.json.Decoder(_Metadata | None)
_TOOLS = Field("tools", msgspec.json.Decoder(list[Raw] | None), None)


def take_options(fields: Fields) -> Options:
    """Workers AI's options, out of the body: the engine knows none."""
    if "options" not in fields:
        return _NO_OPTIONS
    options = OPTIONS.read(fields)
    del fields["options"]
    return options or _NO_OPTIONS


def weigh(fields: Fields, looked_at: frozenset[str]) -> int:
    """Bytes of whatever else may become a prompt: tools, documents, arguments of the template.

    What is nested too deep is refused. Fields that are `looked_at` have readers of their own.
    """
    size = 0
    for name, value in fields.items():
        if name not in looked_at and is_container(value):
            refuse_deep(value, levels_max=DEPTH_MAX - 1, param=name)
            size += len(value)
    return size


def has_tools(fields: Fields) -> bool:
    if "tools" not in fields:
        return False
    # The body is known to be JSON: an array that begins with an object is a list, and not empty.
    if bytes(memoryview(fields["tools"])[:2]) == b"[{":
        return True
    return bool(_TOOLS.read(fields))


def needs_of(fields: Fields, media: Media, *, is_structured: bool) -> frozenset[Capability]:
    """What the model must be able to do."""
    needs = _NOTHING
    if media.images:
        needs = needs | {Capability.VISION}
    if has_tools(fields):
        needs = needs | {Capability.TOOLS}
    if is_structured:
        needs = needs | {Capability.STRUCTURED_OUTPUT}
    return needs


def workflow_of(fields: Fields) -> str:
    """The label in OpenAI's `metadata`. What else is in there is the caller's own business."""
    if "metadata" not in fields:
        return ""
    try:
        metadata = _METADATA.decode(fields["metadata"])
    except (msgspec.DecodeError, RecursionError):
        return ""
    return metadata.workflow if metadata is not None else ""
