"""Collects what this worker publishes to the others, and applies what they publish."""

from collections.abc import Iterable, Sequence
from typing import Final

from penstock.records.replica import ReplicaId
from penstock.records.signal import EngineClaim, LoadClaim, SentPrompt, Signal
from penstock.routing.knowledge import Knowledge, tokens_per_byte
from penstock.routing.known_replica import KnownReplica
from penstock.routing.prefix.index import LINK_MAX
from penstock.routing.route import Route

# Prompts that are kept for the next message; more are not published.
_SENT_MAX: Final = 2000
# A smaller KV cache that a keeper reports is raised to this.
_KV_TOKENS_MIN: Final = 1024
_AGE_MAX: Final = 1e6


class Gossip:
    """Reads and writes `Knowledge`; the `signals` room has the transport."""

    def __init__(self, knowledge: Knowledge, host: str) -> None:
        self._knowledge = knowledge
        self._host = host
        self._sent: list[SentPrompt] = []
        self._named_by: dict[int, frozenset[str]] = {}
        # Replicas that a keeper reports as unhealthy, for this worker to probe itself.
        self.suspects: set[ReplicaId] = set()

    def note_sent(self, route: Route, known: KnownReplica) -> None:
        if len(self._sent) >= _SENT_MAX:
            return
        chain = route.chain
        start = max(0, route.new_from - 1)
        rate = tokens_per_byte(route)
        tokens = [int(size * rate) for size in chain.sizes]
        counted = None
        if route.new_from:
            counted = self._knowledge.index.counted(known.prefixes, chain.links[start])
        before = sum(tokens[:start]) if counted is None else max(0, counted - tokens[start])
        self._sent.append(
            SentPrompt(
                route.session,
                known.id,
                start,
                list(chain.links[start:]),
                tokens[start:],
                chain.opening,
                before,
                counted is not None,
            )
        )

    def take_sent(self) -> list[SentPrompt]:
        sent, self._sent = self._sent, []
        return sent

    def loads(self, now: float) -> list[LoadClaim]:
        """Return a claim for each replica where this worker has requests in flight."""
        return [_claim(known, now) for known in self._knowledge.all() if known.own.in_flight]

    def hear(self, signal: Signal, sent: Sequence[SentPrompt], now: float) -> None:
        # The loads of this host's workers are read from their shared table instead.
        loads = signal.loads if signal.host != self._host else ()
        named = frozenset(claim.replica for claim in (*loads, *signal.engines))
        self._forget(signal.sender, self._named_by.get(signal.sender, frozenset()) - named)
        self._named_by[signal.sender] = named
        for load in loads:
            known = self._knowledge.find(ReplicaId(load.replica))
            if known is not None:
                known.claims.hear(signal.sender, load, known.kv_tokens, now)
                self._knowledge.review(known, now)
        for prompt in sent:
            self._hear_prompt(prompt)
        for engine in signal.engines:
            self._hear_engine(engine, signal.sender, now)

    def forget(self, sender: int) -> None:
        self._forget(sender, self._named_by.pop(sender, frozenset()))

    def _forget(self, sender: int, replicas: Iterable[str]) -> None:
        """Remove the sender's claims about these replicas."""
        for replica in replicas:
            known = self._knowledge.find(ReplicaId(replica))
            if known is not None:
                known.claims.forget(sender)
                if known.keeper == sender:
                    known.forget_keeper()
                known.add_up()

    def _hear_prompt(self, prompt: SentPrompt) -> None:
        knowledge = self._knowledge
        known = knowledge.find(ReplicaId(prompt.replica))
        if known is None or not _is_whole(prompt.links, prompt.tokens):
            return
        links, sizes, before = tuple(prompt.links), tuple(prompt.tokens), prompt.before
        if links:
            if prompt.is_counted:
                knowledge.index.correct(known.prefixes, links[0], before + sizes[0])
            knowledge.index.add(known.prefixes, links, sizes, before=before)
        if prompt.session:
            knowledge.sessions.note(prompt.session, known.id, links, prompt.start, prompt.opening)

    def _hear_engine(self, claim: EngineClaim, keeper: int, now: float) -> None:
        known = self._knowledge.find(ReplicaId(claim.replica))
        if known is None:
            return
        if not claim.is_healthy:
            self.suspects.add(known.replica.id)
        if claim.kv_tokens:
            known.kv_tokens = max(claim.kv_tokens, _KV_TOKENS_MIN)
            known.prefixes.capacity = float(known.kv_tokens)
        if claim.block_tokens:
            known.block_tokens = min(claim.block_tokens, known.kv_tokens)
        known.tell_rate(claim.prefill_rate)
        known.keeper = keeper
        if claim.is_healthy and claim.kv_tokens:
            # An engine that does not answer, or has no metrics, need not be idle.
            self._knowledge.hear_engine(known, claim, now)
        known.keeper_work = (claim.own_requests, min(claim.own_tokens, known.kv_tokens))
        self._knowledge.review(known, now)


def _is_whole(links: list[int], tokens: list[int]) -> bool:
    """Return whether links are valid digests, none repeats, and each has its tokens."""
    are_digests = all(0 < link <= LINK_MAX for link in links)
    return are_digests and len(links) == len(tokens) == len(set(links))


def _claim(known: KnownReplica, now: float) -> LoadClaim:
    own = known.own
    return LoadClaim(
        known.replica.id,
        own.queued_tokens,
        own.head_tokens,
        min(_AGE_MAX, max(0.0, now - own.head_at)) if own.head_at else 0.0,
        min(_AGE_MAX, max(0.0, now - own.progress_at)),
        own.in_flight,
        own.decoding,
        own.prompt_tokens,
    )
