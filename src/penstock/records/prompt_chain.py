"""A prompt as routing compares it: one hash (link) per part, which covers all parts before it."""

from typing import Final

TOOLS: Final = "tools"
SYSTEM: Final = "system"
LINKS_MAX: Final = 1024


class PromptChain:
    """Link 0 is account, model and tools; link i + 1 is message i. Equal links: equal prefixes."""

    def __init__(
        self,
        links: tuple[int, ...] = (),
        sizes: tuple[int, ...] = (),
        earlier: int = 0,
        has_system: bool = False,
        opening: int = 0,
    ) -> None:
        self.links = links
        # Bytes of each part, and `size` for all; an image counts as text of the same cost.
        self.sizes = sizes
        size = 0
        for part in sizes:
            size += part
        self.size = size
        # The number of links in the previous turn's prompt; 0 if there is no assistant message yet.
        self.earlier = earlier
        self.has_system = has_system
        # The first user message alone identifies a conversation whose tools or system changed.
        self.opening = opening

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PromptChain) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(self._fields())

    def bounded(self) -> "PromptChain":
        """Return the chain with at most `LINKS_MAX` links, of which the last covers all the rest.

        Routing does some work per link on the event loop. Of a longer conversation it gets the
        beginning, which is the same from turn to turn, and the whole.
        """
        if len(self.links) <= LINKS_MAX:
            return self
        kept = LINKS_MAX - 1
        return PromptChain(
            (*self.links[:kept], self.links[-1]),
            (*self.sizes[:kept], sum(self.sizes[kept:])),
            min(self.earlier, kept),
            self.has_system,
            self.opening,
        )

    def name_of(self, link: int) -> str:
        """Return the caller's name for a part: `tools`, `system`, or `message` with its index."""
        if link == 0:
            return TOOLS
        return SYSTEM if link == 1 and self.has_system else f"message {link - 1}"

    def _fields(self) -> tuple[object, ...]:
        return (self.links, self.sizes, self.earlier, self.has_system, self.opening)
