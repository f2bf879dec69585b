"""Remembers each session's last replica, its recent prompts, and the replica that failed it."""

from array import array
from typing import Final

from penstock.records.prompt_chain import PromptChain
from penstock.records.replica import ReplicaId

# Conversations kept for one session key: agents also request titles, beside their turns.
_CHAINS_MAX: Final = 3
_LINKS_MAX: Final = 256
_SHORT: Final = 2**31 - 1


class LastPrompt:
    """The lowest 31 bits of each link of a prompt, and the digest of its first user message."""

    def __init__(self, links: "array[int]", opening: int) -> None:
        self.links = links
        self.opening = opening


class Session:
    """One session's last replica, recent prompts and last failure."""

    def __init__(self, replica: ReplicaId) -> None:
        self.replica = replica
        self.prompts: list[LastPrompt] = []
        self.failed: ReplicaId | None = None
        self.failed_at = 0.0


class Sessions:
    """A bounded map of sessions by key; the least recently used one is dropped first."""

    def __init__(self, sessions_max: int) -> None:
        self._max = sessions_max
        self._sessions: dict[int, Session] = {}
        # Keys of sessions whose last request failed.
        self._failed: set[int] = set()

    def __len__(self) -> int:
        return len(self._sessions)

    def find(self, key: int) -> Session | None:
        return self._sessions.get(key)

    def note(
        self, key: int, replica: ReplicaId, links: tuple[int, ...], start: int, opening: int
    ) -> None:
        """Record that the session went to this replica, with these links from index `start` on."""
        session = self._sessions.pop(key, None)
        if session is None:
            session = Session(replica)
            if len(self._sessions) >= self._max:
                oldest = next(iter(self._sessions))
                del self._sessions[oldest]
                self._failed.discard(oldest)
        self._sessions[key] = session
        session.replica = replica
        if not links or len(links) + start > _LINKS_MAX:
            return
        shorts = array("i")
        if start:
            same = next((p for p in session.prompts if p.opening == opening), None)
            if same is None or len(same.links) < start:
                return
            shorts = same.links[:start]
        shorts.extend([link & _SHORT for link in links])
        last = LastPrompt(shorts, opening)
        prompts = [last]
        for earlier in session.prompts:
            if len(prompts) < _CHAINS_MAX and not _is_same(earlier, last):
                prompts.append(earlier)
        session.prompts = prompts

    def note_failure(self, key: int, replica: ReplicaId, now: float) -> None:
        session = self._sessions.get(key)
        if session is not None:
            session.failed, session.failed_at = replica, now
            self._failed.add(key)

    def forget_failure(self, key: int) -> None:
        if key in self._failed:
            self._failed.remove(key)
            self._sessions[key].failed = None


def first_change(session: Session, chain: PromptChain) -> int | None:
    """Return the first link that differs from the session's earlier prompt; None when none does.

    Of several conversations under one key, the one with the longest common prefix is compared.
    Where tools or system differ, only an equal first user message identifies the conversation.
    """
    best: int | None = None
    for prompt in session.prompts:
        common = _common(prompt, chain)
        if common is None:
            return None
        if common >= 2 or (prompt.opening and prompt.opening == chain.opening):
            best = common if best is None else max(best, common)
    return best


def _common(prompt: LastPrompt, chain: PromptChain) -> int | None:
    """Return how many links agree; None when the chain contains the whole earlier prompt."""
    links, shorts = chain.links, prompt.links
    end = len(shorts)
    # Each link covers all links before it: where one agrees, all before it agree.
    if end <= len(links) and links[end - 1] & _SHORT == shorts[end - 1]:
        return None
    same, other = -1, min(end, len(links))
    while other - same > 1:
        middle = (same + other) >> 1
        if links[middle] & _SHORT == shorts[middle]:
            same = middle
        else:
            other = middle
    return other


def _is_same(earlier: LastPrompt, later: LastPrompt) -> bool:
    """Return whether both are of one conversation, so that only the later prompt is kept."""
    if earlier.opening and earlier.opening == later.opening:
        return True
    end = len(earlier.links)
    return end <= len(later.links) and later.links[end - 1] == earlier.links[end - 1]
