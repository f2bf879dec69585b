"""What the path must know of a body, in whichever API it is written; and the fields all share.

Each API has a reader of its own (`chat`, `responses`, …) that ends in a `PromptRequest`. What they
do not read goes through to the engine untouched.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta, Raw

from penstock.records.model import Capability
from penstock.wire.apis.chat_options import Metadata, Options
from penstock.wire.json_body import Field, Fields
from penstock.wire.prompt.media import Media

NO_OPTIONS: Final = Options()
NO_NEEDS: Final = frozenset[Capability]()


class PromptRequest:
    """The fields that go on, and what the path must know about them."""

    def __init__(  # noqa: PLR0913 - the fields of a record
        self,
        *,
        fields: Fields,
        messages: list[Fields],
        media: Media,
        is_stream: bool = False,
        wants_usage: bool = False,
        wants_continuous_usage: bool = False,
        choices: int = 1,
        prompts: int = 1,
        cache_key: str = "",
        conversation: str = "",
        options: Options = NO_OPTIONS,
        needs: frozenset[Capability] = NO_NEEDS,
        prompt_bytes: int = 0,
        images: int = 0,
        max_tokens: int | None = None,
        max_tokens_field: str = "max_tokens",
        workflow: str = "",
    ) -> None:
        self.fields = fields
        # The parts of the prompt in their order, as routing tells them apart.
        self.messages = messages
        self.media = media
        self.is_stream = is_stream
        self.wants_usage = wants_usage
        self.wants_continuous_usage = wants_continuous_usage
        # Answers in all; several texts have some each.
        self.choices = choices
        self.prompts = prompts
        self.cache_key = cache_key
        self.conversation = conversation
        self.rejects_if_busy = options is not NO_OPTIONS and bool(options.reject_if_busy)
        self.needs = needs
        # Bytes of messages, tools and the like without their images, and images: what the prompt is
        # estimated by.
        self.prompt_bytes = prompt_bytes
        self.images = images
        # Tokens that one choice may have at most; None when the caller does not say. 0: none are
        # made.
        self.max_tokens = max_tokens
        # What this API calls that limit.
        self.max_tokens_field = max_tokens_field
        self.workflow = workflow


MODEL: Final = Field("model", msgspec.json.Decoder(str), "")
STREAM: Final = Field("stream", msgspec.json.Decoder(bool | None), None)
CACHE_KEY: Final = Field("prompt_cache_key", msgspec.json.Decoder(str | None), None)
OPTIONS: Final = Field("options", msgspec.json.Decoder(Options | None), None)
TOKENS: Final = msgspec.json.Decoder(Annotated[int, Meta(ge=0)] | None)
METADATA: Final = msgspec.json.Decoder(Metadata | None)
TOOLS: Final = Field("tools", msgspec.json.Decoder(list[Raw] | None), None)
