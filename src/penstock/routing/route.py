"""One request's way: where it goes, what was expected of it there, and how far it has come."""

from penstock.records.prompt_chain import PromptChain
from penstock.records.replica import Replica


class Route:
    """Made by `Router.pick`, and handed back to it at every step."""

    def __init__(  # noqa: PLR0913 - the fields of a record
        self,
        replica: Replica,
        chain: PromptChain,
        session: int,
        prompt_tokens: int,
        expected_cached: int,
        *,
        is_stream: bool = True,
        is_guess: bool = False,
    ) -> None:
        self.replica = replica
        # Read at every step, and a field of a Struct costs fifty times as much.
        self.replica_id = replica.id
        self.chain = chain
        self.session = session
        self.prompt_tokens = prompt_tokens
        self.expected_cached = expected_cached
        self.uncached = max(1, prompt_tokens - expected_cached)
        self.is_stream = is_stream
        # Whether what is expected is a guess: that the session's home holds its earlier turns.
        self.is_guess = is_guess
        # Why the session is not where it was last: `load`, `drain` or `lost`; empty when it is.
        self.moved = ""
        # The first part of the prompt that has changed since the session's last turn; or empty.
        self.cache_break = ""
        self.new_from = 0
        self.sent_at = 0.0
        # Seconds to the first token, as expected when it was sent; only of what is not streamed.
        self.expected_seconds = 0.0
        self.is_waiting = False

    def cached_of(self, tokens: int) -> int:
        """The part of a prompt's estimate that is expected in the replica's cache.

        By share: `prompt_tokens` is routing's own estimate of the same prompt.
        """
        return tokens * min(self.expected_cached, self.prompt_tokens) // max(1, self.prompt_tokens)
