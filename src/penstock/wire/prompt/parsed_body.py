"""A body split into its fields, and a chat's messages where they were decoded on the way."""

from typing import TYPE_CHECKING

from penstock.wire.json_body import Fields
from penstock.wire.prompt.known_prompt import KnownPrompt

if TYPE_CHECKING:
    from penstock.wire.prompt.memory import BodyDigests


class ParsedBody:
    """The body's fields; and `messages`, if they were decoded on the way."""

    def __init__(
        self,
        fields: Fields,
        messages: list[Fields] | None = None,
        known: KnownPrompt | None = None,
        array_at: int = 0,
        boundary: int = 0,
        commas: int | None = None,
    ) -> None:
        self.fields = fields
        # The messages after the known ones.
        self.messages = messages
        self.known = known
        # Where `messages` begins in the body, and the byte after the last message.
        self.array_at = array_at
        self.boundary = boundary
        # An upper bound of the commas up to the boundary; None where they were not counted.
        self.commas = commas
        # The digests that identify the prompt; None where it is not remembered.
        self.digests: BodyDigests | None = None
        # True only where the reader has checked that no value in a message, or of a field, is an
        # array or object.
        self.has_only_texts = False
        self.has_only_scalars = False
