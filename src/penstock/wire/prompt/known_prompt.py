"""What the memory keeps of a prompt's first messages.

Offsets and figures only: nothing here holds a byte of the body that it was learned from.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from array import array


class KnownPrompt:
    """Facts of every body of the same account that begins with the same `boundary` bytes.

    The system message, if there is one, is among the known messages.
    """

    def __init__(  # noqa: PLR0913 - the fields of a record
        self,
        *,
        array_at: int,
        boundary: int,
        commas: int | None,
        root: int,
        image_bytes: int,
        links: "array[int]",
        sizes: "array[int]",
        earlier: int,
        ends_with_answer: bool,
        has_system: bool,
        opening: int,
        images: "array[int]",
        system: tuple[int, int] | None,
    ) -> None:
        # Where `messages` begins in the body, and the byte after the last known message.
        self.array_at = array_at
        self.boundary = boundary
        # An upper bound of the commas up to the boundary; None where they were not counted.
        self.commas = commas
        # What the links were made from: they are valid only for the same root and image size.
        self.root = root
        self.image_bytes = image_bytes
        # As in `PromptChain`, for the known messages.
        self.links = links
        self.sizes = sizes
        self.earlier = earlier
        self.ends_with_answer = ends_with_answer
        self.has_system = has_system
        self.opening = opening
        # Index, count and bytes of each message that has images, one after the other.
        self.images = images
        # Start and end of the first system message's content, counted from `array_at`.
        self.system = system
        # How many messages are known.
        self.count = len(links) - 1
        # How much memory it takes, in links.
        self.weight = len(links) + len(images)
