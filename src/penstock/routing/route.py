"""One request's route: its replica, what was expected there, and its progress."""

from penstock.records.prompt_chain import PromptChain
from penstock.records.replica import Replica


class Route:
    """The result of `Router.pick`, which the caller passes back to the router at every step."""

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
        # A copy: it is read at every step, and a field of a Struct costs fifty times as much.
        self.replica_id = replica.id
        self.chain = chain
        self.session = session
        self.prompt_tokens = prompt_tokens
        self.expected_cached = expected_cached
        self.uncached = max(1, prompt_tokens - expected_cached)
        self.is_stream = is_stream
        # Whether `expected_cached` is a guess of what the session's home holds of earlier turns.
        self.is_guess = is_guess
        # Why the session left its last replica: `load`, `drain` or `lost`; empty if it stayed.
        self.moved = ""
        # The first part of the prompt that has changed since the session's last turn; or empty.
        self.cache_break = ""
        self.new_from = 0
        self.sent_at = 0.0
        # Expected seconds to the first token; set only for requests that are not streamed.
        self.expected_seconds = 0.0
        self.is_waiting = False

    def cached_of(self, tokens: int) -> int:
        """Return how many of an estimate's prompt tokens are expected in the replica's cache.

        Scaled, because `prompt_tokens` is routing's own estimate of the same prompt.
        """
        return tokens * min(self.expected_cached, self.prompt_tokens) // max(1, self.prompt_tokens)
