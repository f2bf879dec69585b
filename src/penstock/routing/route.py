"""One request's way: where it goes, what was expected of it there, and how far it has come."""

import msgspec

from penstock.records.prompt_chain import PromptChain
from penstock.records.replica import Replica


class Route(msgspec.Struct, eq=False):
    """Made by `Router.pick`, and handed back to it at every step."""

    replica: Replica
    chain: PromptChain
    session: int
    prompt_tokens: int
    expected_cached: int
    # Why the session is not where it was last: `load`, `drain` or `lost`; empty when it is.
    moved: str = ""
    # The first part of the prompt that has changed since the session's last turn; or empty.
    cache_break: str = ""
    is_stream: bool = True
    # Whether what is expected is a guess: that the session's home holds its earlier turns.
    is_guess: bool = False
    new_from: int = 0
    sent_at: float = 0.0
    # Seconds to the first token, as expected when it was sent; only of what is not streamed.
    expected_seconds: float = 0.0
    is_waiting: bool = False

    @property
    def uncached(self) -> int:
        return max(1, self.prompt_tokens - self.expected_cached)
