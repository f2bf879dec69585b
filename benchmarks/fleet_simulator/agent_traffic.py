"""Made-up traffic of agents, from a seed: sessions that grow, in place of traces nobody may ship.

Each session belongs to an application with its own system prompt and tools, grows by what its tools
return, thinks in between (tools for seconds, people for minutes), and may send out sub-agents.
"""

import heapq
from itertools import count
from random import Random

import msgspec

from fleet_simulator.block_cache import BLOCK_TOKENS
from fleet_simulator.flight import TraceRequest

# While an answer is made, its session waits; this is only about what a loaded engine takes.
_SECONDS_PER_OUTPUT_TOKEN = 0.04


class AgentTraffic(msgspec.Struct, frozen=True):
    """How the sessions are. Token counts are medians of a skewed spread."""

    seconds: float = 600.0
    sessions_per_second: float = 0.5
    applications: int = 6
    opening_tokens_min: int = 1_500
    opening_tokens_max: int = 9_000
    first_message_tokens: float = 2_500
    tool_result_tokens: float = 1_200
    output_tokens: float = 180
    turns_mean: float = 8.0
    context_tokens_max: int = 120_000
    tool_seconds: float = 4.0
    person_seconds: float = 60.0
    person_share: float = 0.15
    sub_agent_share: float = 0.06
    sub_agent_turns_mean: float = 4.0


def make_traffic(traffic: AgentTraffic, seed: int) -> list[TraceRequest]:
    """The requests of all sessions that begin within `traffic.seconds`, in order of time."""
    return _Maker(traffic, seed).make()


class _Session:
    """One conversation: its prefix so far, in blocks that are full."""

    def __init__(self, number: int, at: float, opening: list[int], turns: int) -> None:
        self.number = number
        self.at = at
        self.blocks = list(opening)
        self.tokens = len(opening) * BLOCK_TOKENS
        self.turns_left = turns
        self.turn = 0
        self.is_sub_agent = False


class _Maker:
    def __init__(self, traffic: AgentTraffic, seed: int) -> None:
        self._traffic = traffic
        self._random = Random(seed)
        self._ids = count()
        self._numbers = count()
        # An application's agents and its sub-agents begin with different instructions.
        self._openings = [self._make_opening() for _ in range(traffic.applications)]
        self._sub_openings = [self._make_opening() for _ in range(traffic.applications)]
        # By the time of their next request; a number breaks ties.
        self._due: list[tuple[float, int, _Session]] = []

    def make(self) -> list[TraceRequest]:
        traffic, random = self._traffic, self._random
        at = random.expovariate(traffic.sessions_per_second)
        while at < traffic.seconds:
            turns = self._count(traffic.turns_mean)
            self._put(_Session(next(self._numbers), at, self._opening(self._openings), turns))
            at += random.expovariate(traffic.sessions_per_second)
        requests = []
        while self._due:
            _, _, session = heapq.heappop(self._due)
            requests.append(self._take_turn(session))
        return requests

    def _take_turn(self, session: _Session) -> TraceRequest:
        traffic, random = self._traffic, self._random
        is_first = session.turn == 0
        earlier = 0 if is_first else len(session.blocks) * BLOCK_TOKENS
        added = traffic.first_message_tokens if is_first else traffic.tool_result_tokens
        session.tokens += self._skewed(added)
        while len(session.blocks) < session.tokens // BLOCK_TOKENS:
            session.blocks.append(next(self._ids))
        output = self._skewed(traffic.output_tokens)
        # What does not fill a block is never shared.
        rest = [next(self._ids)] if session.tokens % BLOCK_TOKENS else []
        request = TraceRequest(
            at=session.at,
            prompt_tokens=session.tokens,
            output_tokens=output,
            session=session.number,
            turn=session.turn,
            earlier_tokens=min(earlier, (session.tokens - 1) // BLOCK_TOKENS * BLOCK_TOKENS),
            blocks=(*session.blocks, *rest),
        )
        session.turn += 1
        session.turns_left -= 1
        session.at += output * _SECONDS_PER_OUTPUT_TOKEN
        session.tokens += output
        if session.turns_left and session.tokens < traffic.context_tokens_max:
            if not session.is_sub_agent and random.random() < traffic.sub_agent_share:
                session.at = self._send_sub_agent(session.at)
            session.at += self._think(is_person_asked=not session.is_sub_agent)
            self._put(session)
        return request

    def _send_sub_agent(self, at: float) -> float:
        """It works beside its session, which waits for it about so long."""
        turns = self._count(self._traffic.sub_agent_turns_mean)
        sub_agent = _Session(next(self._numbers), at, self._opening(self._sub_openings), turns)
        sub_agent.is_sub_agent = True
        self._put(sub_agent)
        return at + turns * (
            self._traffic.tool_seconds + self._traffic.output_tokens * _SECONDS_PER_OUTPUT_TOKEN
        )

    def _think(self, *, is_person_asked: bool) -> float:
        traffic = self._traffic
        if is_person_asked and self._random.random() < traffic.person_share:
            return self._random.expovariate(1 / traffic.person_seconds)
        return self._random.expovariate(1 / traffic.tool_seconds)

    def _put(self, session: _Session) -> None:
        heapq.heappush(self._due, (session.at, session.number, session))

    def _make_opening(self) -> list[int]:
        traffic = self._traffic
        tokens = self._random.randint(traffic.opening_tokens_min, traffic.opening_tokens_max)
        return [next(self._ids) for _ in range(tokens // BLOCK_TOKENS)]

    def _opening(self, openings: list[list[int]]) -> list[int]:
        """Some applications are far more used than others."""
        weights = [1 / place for place in range(1, len(openings) + 1)]
        return self._random.choices(openings, weights)[0]

    def _count(self, mean: float) -> int:
        return 1 + int(self._random.expovariate(1 / max(mean - 0.5, 0.1)))

    def _skewed(self, median: float) -> int:
        return max(1, int(median * self._random.lognormvariate(0.0, 0.9)))
