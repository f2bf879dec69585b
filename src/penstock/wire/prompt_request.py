"""What the path must know of a body, in whichever API it is written; and the fields all share.

Each API has a reader of its own (`chat`, `responses`, …) that ends in a `PromptRequest`. What they
do not read goes through to the engine untouched.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta, Raw

from penstock.records.model import Capability
from penstock.wire.json_body import Field, Fields
from penstock.wire.media import Media


class Options(msgspec.Struct, frozen=True):
    """Workers AI's options, as they come in a body."""

    reject_if_busy: bool | None = msgspec.field(default=None, name="rejectIfBusy")
    queue_request: bool | None = msgspec.field(default=None, name="queueRequest")


NO_OPTIONS: Final = Options()


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
    options: Options = NO_OPTIONS
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


class Metadata(msgspec.Struct):
    """OpenAI's labels, of which one is ours."""

    workflow: str = ""


MODEL = Field("model", msgspec.json.Decoder(str), "")
STREAM = Field("stream", msgspec.json.Decoder(bool | None), None)
CACHE_KEY = Field("prompt_cache_key", msgspec.json.Decoder(str | None), None)
OPTIONS = Field("options", msgspec.json.Decoder(Options | None), None)
TOKENS: Final = msgspec.json.Decoder(Annotated[int, Meta(ge=0)] | None)
METADATA: Final = msgspec.json.Decoder(Metadata | None)
TOOLS = Field("tools", msgspec.json.Decoder(list[Raw] | None), None)
