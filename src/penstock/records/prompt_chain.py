"""A prompt as routing sees it: one link per part, each covering all the parts before it."""

import msgspec

TOOLS = "tools"
SYSTEM = "system"


class PromptChain(msgspec.Struct, frozen=True):
    """Link 0 is account, model and tools; link i + 1 is message i. Equal links, equal prefixes."""

    links: tuple[int, ...] = ()
    # Bytes of each part, an image counted as the text that costs as much.
    sizes: tuple[int, ...] = ()
    # How many links the prompt of the turn before had; 0 when no assistant has spoken yet.
    earlier: int = 0
    has_system: bool = False
    # The first user message by itself: it tells a conversation when tools or system have changed.
    opening: int = 0

    def name_of(self, link: int) -> str:
        """What the caller calls this part: `tools`, `system`, or `message` with its index."""
        if link == 0:
            return TOOLS
        return SYSTEM if link == 1 and self.has_system else f"message {link - 1}"
