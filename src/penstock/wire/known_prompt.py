"""What was learned of a prompt's first messages when they were read before.

Places and figures only: nothing here holds a byte of the body that it was learned from.
"""

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from array import array


class KnownPrompt(msgspec.Struct, frozen=True):
    """True of every body of the same account that begins with the same `boundary` bytes.

    Its system message, if it has one, is among the known.
    """

    # Where `messages` begins in the body, and the byte behind the last known message.
    array_at: int
    boundary: int
    # No fewer than there are up to the boundary; None where nobody counted.
    commas: int | None
    # What the links were made from. They are as good as these are the same.
    root: int
    image_bytes: int
    # Those of `PromptChain`, for the known messages.
    links: "array[int]"
    sizes: "array[int]"
    earlier: int
    ends_with_answer: bool
    has_system: bool
    opening: int
    # Index, count and bytes of each message that has images, one after the other.
    images: "array[int]"
    # The content of the first system message: from and to, counted from `array_at`.
    system: tuple[int, int] | None

    @property
    def count(self) -> int:
        """How many messages are known."""
        return len(self.links) - 1

    @property
    def weight(self) -> int:
        """How much memory it takes, in links."""
        return len(self.links) + len(self.images)
