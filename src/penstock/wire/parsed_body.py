"""A body as far as it was read to find out whose it is: its fields, and perhaps its messages."""

from penstock.wire.json_body import Fields
from penstock.wire.known_prompt import KnownPrompt


class ParsedBody:
    """The body's fields; and `messages`, when they were decoded on the way."""

    __slots__ = (
        "array_at", "boundary", "commas", "fields", "has_only_scalars", "has_only_texts", "known",
        "messages",
    )  # fmt: skip

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
        # Those behind the known ones.
        self.messages = messages
        self.known = known
        # Where `messages` begins in the body, and the byte behind the last message.
        self.array_at = array_at
        self.boundary = boundary
        # At least as many as there are up to the boundary; None where nobody counted.
        self.commas = commas
        # Known by the way, if so: no array and no object is a value in a message, or of a field.
        self.has_only_texts = False
        self.has_only_scalars = False
