"""Where each session was last, which prompt it had then, and which replica failed it."""

from array import array
from collections.abc import Sequence
from typing import Final

from penstock.records.prompt_chain import PromptChain
from penstock.records.replica import ReplicaId

# Conversations that one session key may hold at a time: agents send titles beside their turns.
_CHAINS_MAX: Final = 3
_LINKS_MAX: Final = 256
_UNPACKED_MAX: Final = 8
_SHORT: Final = 0xFFFFFFFF


class LastPrompt:
    """A prompt's links, of which the lowest bits count, and its first user message."""

    __slots__ = ("links", "opening")

    def __init__(self, links: Sequence[int], opening: int) -> None:
        self.links = links
        self.opening = opening


class Session:
    """What is remembered of one session."""

    __slots__ = ("failed", "failed_at", "prompts", "replica")

    def __init__(self, replica: ReplicaId) -> None:
        self.replica = replica
        self.prompts: list[LastPrompt] = []
        self.failed: ReplicaId | None = None
        self.failed_at = 0.0


class Sessions:
    """Bounded: the session used longest ago is forgotten first."""

    def __init__(self, sessions_max: int) -> None:
        self._max = sessions_max
        self._sessions: dict[int, Session] = {}
        # Those whose last request failed.
        self._failed: set[int] = set()

    def __len__(self) -> int:
        return len(self._sessions)

    def find(self, key: int) -> Session | None:
        return self._sessions.get(key)

    def note(
        self, key: int, replica: ReplicaId, links: tuple[int, ...], start: int, opening: int
    ) -> None:
        """The session went to this replica, with these links from index `start` on."""
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
        if start:
            earlier = next((p for p in session.prompts if p.opening == opening), None)
            if earlier is None or len(earlier.links) < start:
                return
            links = (*earlier.links[:start], *links)
        kept = [p for p in session.prompts if not _is_same(p, links, opening)]
        session.prompts = [LastPrompt(_packed(links), opening), *kept][:_CHAINS_MAX]

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
    """The first link that differs from the session's earlier prompt; None when none does.

    Of several conversations under one key, the one that agrees longest is meant. Where tools or
    system differ, only an equal first user message tells that it is the same conversation.
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
    """How many links agree; None when all of the earlier prompt is still there."""
    links, shorts = chain.links, prompt.links
    end = len(shorts)
    # Each link covers all before it: where one agrees, all before it do.
    if end <= len(links) and _are_equal(links[end - 1], shorts[end - 1]):
        return None
    same, other = -1, min(end, len(links))
    while other - same > 1:
        middle = (same + other) // 2
        if _are_equal(links[middle], shorts[middle]):
            same = middle
        else:
            other = middle
    return other


def _is_same(earlier: LastPrompt, links: tuple[int, ...], opening: int) -> bool:
    """Whether it is the same conversation, so that only the later prompt is worth its place."""
    if earlier.opening and earlier.opening == opening:
        return True
    end = len(earlier.links)
    return end <= len(links) and _are_equal(links[end - 1], earlier.links[end - 1])


def _are_equal(link: int, other: int) -> bool:
    return (link ^ other) & _SHORT == 0


def _packed(links: tuple[int, ...]) -> Sequence[int]:
    """As they are when they are few; of many, four bytes each instead of forty."""
    if len(links) <= _UNPACKED_MAX:
        return links
    return array("I", [link & _SHORT for link in links])
