"""What the path must know of a body in any API, and the fields that all APIs share.

Each API has a reader of its own (`chat`, `responses`, …) that returns a `PromptRequest`. Fields
that it does not read go to the engine untouched.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta, Raw

from penstock.records.model import Capability
from penstock.wire.apis.chat_options import Metadata, Options
from penstock.wire.json_body import Field, Fields, is_given
from penstock.wire.prompt.media import Media

_NEWER: Final = "max_completion_tokens"
NO_OPTIONS: Final = Options()
NO_NEEDS: Final = frozenset[Capability]()


class PromptRequest:
    """The fields that go to the engine, and what the path must know about them."""

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
        # The parts of the prompt in their order; each becomes a link of the prompt's chain.
        self.messages = messages
        self.media = media
        self.is_stream = is_stream
        self.wants_usage = wants_usage
        self.wants_continuous_usage = wants_continuous_usage
        # The number of answers to all texts together.
        self.choices = choices
        self.prompts = prompts
        self.cache_key = cache_key
        self.conversation = conversation
        self.rejects_if_busy = options is not NO_OPTIONS and bool(options.reject_if_busy)
        self.needs = needs
        # Bytes of messages, tools and the like without images, and the number of images: the
        # prompt's tokens are estimated from these.
        self.prompt_bytes = prompt_bytes
        self.images = images
        # Tokens that one choice may have at most; None when the caller sets no limit, 0 when none
        # are generated.
        self.max_tokens = max_tokens
        # Whether the caller leaves the length open; a contract may have set `max_tokens` since.
        self.may_shorten = max_tokens is None
        # The name of that limit in this API.
        self.max_tokens_field = max_tokens_field
        self.workflow = workflow

    def bound_tokens(self, most: int) -> None:
        """Bound each answer, by the names that this API's engine obeys."""
        bound = Raw(b"%d" % most)
        self.max_tokens = most
        self.fields[self.max_tokens_field] = bound
        # Of the two names that a chat may have, the engine obeys the newer.
        if is_given(self.fields, _NEWER):
            self.fields[_NEWER] = bound


MODEL: Final = Field("model", msgspec.json.Decoder(str), "")
STREAM: Final = Field("stream", msgspec.json.Decoder(bool | None), None)
CACHE_KEY: Final = Field("prompt_cache_key", msgspec.json.Decoder(str | None), None)
OPTIONS: Final = Field("options", msgspec.json.Decoder(Options | None), None)
TOKENS: Final = msgspec.json.Decoder(Annotated[int, Meta(ge=0)] | None)
METADATA: Final = msgspec.json.Decoder(Metadata | None)
TOOLS: Final = Field("tools", msgspec.json.Decoder(list[Raw] | None), None)
