"""What is known of one replica: this worker's requests there, others' claims, and its speed."""

from typing import Final

from penstock.records.engine_load import EngineLoad
from penstock.records.host_load import HostLoad
from penstock.records.replica import Replica
from penstock.records.signal import EngineClaim
from penstock.routing.outstanding import Outstanding
from penstock.routing.peer_loads import PeerLoads, Trials
from penstock.routing.prefix.index import ReplicaPrefixes
from penstock.routing.route import Route

_KEEP: Final = 0.97
# The weight of the first guess of a replica's rate, in tokens.
_FIRST_TOKENS: Final = 20_000.0
# Below this a wait shows latency and batching, not the rate of prefill.
_TELLING_TOKENS: Final = 256
# A lower rate that a keeper reports is raised to this.
_RATE_MIN: Final = 10.0
# Claims count as keeping requests away when this share of the KV cache is in use with them.
_KV_KEEPS_AWAY: Final = 0.9
NO_LOAD: Final = HostLoad()


class Unheard:
    """An engine's load from silent gateways: requests, and what is known of them."""

    def __init__(
        self, requests: int = 0, decoding: int = 0, tokens: int = 0, waiting_tokens: float = 0.0
    ) -> None:
        self.requests = requests
        self.decoding = decoding
        self.tokens = tokens
        # Uncached prompt tokens that wait, assuming this worker's mean for each prompt.
        self.waiting_tokens = waiting_tokens


class EngineFigures:
    """An engine's own figures, and when they were received."""

    def __init__(self, at: float, requests: int, unheard: Unheard) -> None:
        self.at = at
        self.requests = requests
        self.unheard = unheard


NOTHING_UNHEARD: Final = Unheard()
_NO_FIGURES: Final = EngineFigures(float("-inf"), 0, NOTHING_UNHEARD)


class KnownReplica:
    """One replica's load and speed, read for every candidate. Times are monotonic seconds."""

    def __init__(
        self, replica: Replica, prefixes: ReplicaPrefixes, kv_tokens: int, rate: float
    ) -> None:
        self.renew(replica)
        self.prefixes = prefixes
        self.kv_tokens = kv_tokens
        # 1 until its keeper has told the engine's.
        self.block_tokens = 1
        self.own = Outstanding()
        self.claims = PeerLoads()
        # The load of this host's other workers there, as of the last read of their table.
        self.host_load = NO_LOAD
        # Requests and prompt tokens that no gateway sent, such as flex work.
        self.keeper_work = (0, 0)
        self.keeper = 0
        # How many of `in_flight` are flex work, as the keeper reports: they take no live slot.
        self.flex_in_flight = 0
        # The engine's own figures, and the part of them that no gateway reports.
        self.engine = _NO_FIGURES
        # Whether others' claims are ignored now: see `review`.
        self.is_doubted = False
        # Sums over all known others: requests, decoding requests, and prompt tokens.
        self.others_in_flight = 0
        self.others_decoding = 0
        self.others_tokens = 0
        self.seconds_per_token = 1.0 / rate
        self._work = _FIRST_TOKENS / rate
        self._tokens = _FIRST_TOKENS
        self._is_rate_told = False
        self._sent_at = 0.0
        self._claimed_at = 0.0
        self._trusted_again_at = 0.0
        self._is_on_trial = False

    def renew(self, replica: Replica) -> None:
        """Take a new record from the roster, and copy the fields that every choice reads."""
        self.replica = replica
        self.id = replica.id
        self.model = replica.model
        self.slots_live = replica.slots_live

    @property
    def in_flight(self) -> int:
        """Requests in flight there, of all known senders."""
        return self.own.in_flight + self.others_in_flight

    @property
    def live_in_flight(self) -> int:
        """Requests in flight without flex work, which yields: only live requests take slots."""
        return self.own.in_flight + self.others_in_flight - self.flex_in_flight

    def note_host(self, load: HostLoad | None) -> None:
        """Store the current load of this host's other workers there."""
        if load is None:
            load = NO_LOAD
        if load is not self.host_load:
            self.host_load = load
            self.add_up()

    def add_up(self) -> None:
        """Recompute the sums over all others, after any of their loads has changed."""
        host, claims = self.host_load, self.claims
        if self.is_doubted:
            self.others_in_flight = int(host.in_flight)
            self.others_decoding = int(host.decoding)
            self.others_tokens = int(host.prompt_tokens)
            self.flex_in_flight = 0
            return
        requests, tokens = self.keeper_work
        # Without a keeper `requests` is the engine's load beyond all claims, of any kind.
        self.flex_in_flight = requests if self.keeper else 0
        unheard = self.engine.unheard
        if unheard.requests:
            requests, tokens = requests + unheard.requests, tokens + unheard.tokens
        self.others_in_flight = int(host.in_flight) + claims.in_flight + requests
        self.others_decoding = int(host.decoding) + claims.decoding + unheard.decoding
        self.others_tokens = int(host.prompt_tokens) + claims.prompt_tokens + tokens

    def own_load(self) -> HostLoad:
        """Return this worker's load there, for its host's other workers."""
        own = self.own
        return HostLoad(
            float(own.queued_tokens),
            float(own.head_tokens),
            own.head_at,
            own.progress_at,
            float(own.in_flight),
            float(own.decoding),
            float(own.prompt_tokens),
        )

    def queue(self, now: float) -> float:
        """Return the uncached prompt tokens that wait there ahead of a new request.

        Work done since the last first token is subtracted once for all senders. This host's figures
        are exact; other hosts' claims are as old as their last message and have shrunk since.
        """
        own, host = self.own, self.host_load
        if own.unstreamed:
            own.settle(now)
        sent = float(own.queued_tokens)
        head_tokens = float(own.head_tokens)
        head_at, progress_at = own.head_at, own.progress_at
        if host.outstanding:
            sent += host.outstanding
            if not head_at or 0 < host.head_at < head_at:
                head_tokens, head_at = host.head_tokens, host.head_at
            progress_at = max(progress_at, host.progress_at)
        waiting = 0.0
        if sent:
            done = (now - progress_at) / self.seconds_per_token
            waiting = sent - (done if done < head_tokens else head_tokens)
        waiting += self.engine.unheard.waiting_tokens
        if self.claims.outstanding and not self.is_doubted:
            return max(waiting, self._with_claims(sent, head_tokens, head_at, progress_at, now))
        return waiting

    def review(self, now: float, claim_seconds: float, trials: Trials) -> None:
        """Decide whether others' claims count, after each new claim.

        They do not where the engine or our own first tokens have just disproved them. Claims that
        would keep requests away for long are tested now and then by a request of our own.
        """
        if not self._keeps_away(claim_seconds):
            self._claimed_at = 0.0
            self._is_on_trial = False
        elif not self._claimed_at:
            self._claimed_at = now
        elif now - self.engine.at < claim_seconds:
            # The engine's own recent figures check the claims: no trial is needed.
            waited = self.engine.at - self._claimed_at
            is_denied = waited >= claim_seconds / 4 and self._is_denied_by_engine()
            self._trusted_again_at = now + claim_seconds / 4 if is_denied else 0.0
        elif not self._is_on_trial and not self.own.queued_tokens:
            # Half the time is for waiting, the other half for trials of other replicas first.
            waited = now - max(self._claimed_at, self._sent_at)
            self._is_on_trial = waited >= claim_seconds / 2 and trials.take(now)
        self.is_doubted = self._is_on_trial or now < self._trusted_again_at
        self.add_up()

    def hear_engine(self, claim: EngineClaim, now: float, unheard: Unheard) -> None:
        requests = claim.running + claim.waiting - claim.own_requests
        self.engine = EngineFigures(now, requests, unheard)

    def count_unheard(self, claim: EngineClaim, mean_tokens: float) -> Unheard:
        """Return the load that neither this host nor a keeper sent: that of silent gateways."""
        own, host = self.own, self.host_load
        requests = claim.running + claim.waiting - claim.own_requests
        requests -= own.in_flight + int(host.in_flight)
        if requests <= 0:
            return NOTHING_UNHEARD
        sent_waiting = own.in_flight - own.decoding + int(host.in_flight - host.decoding)
        waiting = min(requests, max(0, claim.waiting - sent_waiting))
        tokens = int(claim.kv_use * self.kv_tokens) - claim.own_tokens
        tokens -= own.prompt_tokens + int(host.prompt_tokens)
        return Unheard(requests, requests - waiting, max(0, tokens), waiting * mean_tokens)

    def _is_denied_by_engine(self) -> bool:
        """Return whether the engine has far fewer requests than others claim to have there."""
        sent = self.own.in_flight + int(self.host_load.in_flight)
        return self.engine.requests <= sent + self.claims.in_flight // 2

    def _keeps_away(self, claim_seconds: float) -> bool:
        """Return whether others claim so much that hardly a request would be sent there."""
        claims, own, host = self.claims, self.own, self.host_load
        requests, tokens = self.keeper_work
        in_flight = own.in_flight + host.in_flight + claims.in_flight + requests
        prompt_tokens = own.prompt_tokens + host.prompt_tokens + claims.prompt_tokens + tokens
        return bool(
            claims.in_flight or claims.outstanding or claims.prompt_tokens or requests or tokens
        ) and (
            claims.outstanding * self.seconds_per_token >= claim_seconds
            or in_flight >= self.slots_live
            or prompt_tokens >= _KV_KEEPS_AWAY * self.kv_tokens
        )

    def note_sent(self, route: Route, now: float) -> None:
        route.sent_at = now
        if not route.is_stream:
            # Nothing will show when its prefill ends, so that is estimated.
            route.expected_seconds = (self.queue(now) + route.uncached) * self.seconds_per_token
        self._sent_at = now
        self.own.add(route, now)
        if self._is_on_trial:
            # One request is enough: its first token shows whether the claims are true.
            self._is_on_trial = False
            self.is_doubted = now < self._trusted_again_at
            self.add_up()

    def note_first(self, route: Route, now: float, claim_seconds: float) -> None:
        """Learn from a first token: the rate, and whether others' claims can be true."""
        if not route.is_waiting:
            return
        since = max(route.sent_at, self.own.progress_at)
        self.own.note_first(route, now)
        tokens = route.uncached
        # The time of an unstreamed answer includes decoding, so it does not show the rate.
        is_telling = route.is_stream and tokens >= _TELLING_TOKENS
        if is_telling:
            self._work = self._work * _KEEP + max(0.0, now - since)
            self._tokens = self._tokens * _KEEP + tokens
            if not self._is_rate_told:
                self.seconds_per_token = max(self._work, 1e-9) / self._tokens
        waited = now - route.sent_at - tokens * self.seconds_per_token
        claimed = max(claim_seconds, self.claims.outstanding * self.seconds_per_token)
        if waited < claimed / 4 and self._keeps_away(claim_seconds):
            self._trusted_again_at = now + claim_seconds
            self.is_doubted = True
            self.add_up()

    def tell_rate(self, rate: float) -> None:
        """Use the rate that a keeper measured at the engine: better than from single answers."""
        self._is_rate_told = rate > 0
        if rate > 0:
            self.seconds_per_token = 1.0 / max(rate, _RATE_MIN)

    def note_load(self, load: EngineLoad) -> None:
        """Count the engine's load beyond all gateways' claims as work that no gateway sent."""
        host, claims, own = self.host_load, self.claims, self.own
        requests = load.waiting - own.in_flight - int(host.in_flight) - claims.in_flight
        tokens = int(load.kv_use * self.kv_tokens)
        tokens -= own.prompt_tokens + int(host.prompt_tokens) + claims.prompt_tokens
        self.keeper_work = (max(0, requests), max(0, tokens))

    def forget_keeper(self) -> None:
        """Drop a silent keeper's figures, except the size of the KV cache, which stays true."""
        self.keeper, self.keeper_work, self.engine = 0, (0, 0), _NO_FIGURES
        self._is_rate_told = False
        self.seconds_per_token = max(self._work, 1e-9) / self._tokens

    def _with_claims(
        self, sent: float, head_tokens: float, head_at: float, progress_at: float, now: float
    ) -> float:
        """Return the queue of what this host sent and what others claim."""
        claims, pace = self.claims, self.seconds_per_token
        at = claims.at
        if claims.head_tokens and (not head_at or claims.head_at < head_at):
            head_tokens = float(claims.head_tokens)
        progress_at = max(progress_at, claims.progress_at)
        done = min(head_tokens, max(0.0, at - progress_at) / pace)
        total = sent + claims.outstanding
        # Since then the replica has worked on others' and on our requests in proportion.
        share = claims.outstanding / total
        return total - done - share * max(0.0, now - at) / pace
