"""What one choice among 512 replicas costs, with a million links known; hashing is apart."""

import gc
import time
from random import Random

from penstock.records.account import AccountId, KeyId
from penstock.records.prompt_chain import PromptChain
from penstock.records.request import InferenceRequest, RequestId
from penstock.records.signal import EngineClaim, PeerState, Signal
from penstock.records.usage import Usage
from penstock.routing import Router, Settings
from penstock.testing.fleet_simulator.engine_constants import EngineConstants
from penstock.testing.fleet_simulator.figures import percentile
from penstock.testing.fleet_simulator.fleet import Fleet
from penstock.testing.fleet_simulator.penstock_gateway import MODEL, SimulatedRoster

REPLICAS = 512
_LINKS = 1_000_000
_LINK_BYTES = 2_400
_TURNS = 10
_SYSTEM_PROMPTS = 20
_DECISIONS = 20_000
# Between two decisions at 1,160 requests a second.
_GAP_SECONDS = 1 / 1_160


def decision_microseconds() -> tuple[float, float]:
    """CPU time of `Router.pick`: median and p99."""
    router, sessions = _fill()
    # As a gateway worker has it, see app.py: what was built before is left out of collections.
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)
    random = Random(2)
    now, ticked, costs = 1e4, 0.0, []
    for number in range(_DECISIONS):
        session = random.choice(sessions)
        request = _request(session, turns=random.randint(2, _TURNS) + 1, number=number)
        if now - ticked > 0.01:
            router.tick(now)
            ticked = now
        start = time.process_time_ns()
        route = router.pick(request, (), now)
        costs.append((time.process_time_ns() - start) / 1000)
        router.sent(route, now)
        router.first_token(route, now + 0.0001)
        if number % 4:
            router.finished(route, Usage(route.prompt_tokens, 100, route.expected_cached), now)
        now += _GAP_SECONDS
    costs.sort()
    return percentile(costs, 0.5), percentile(costs, 0.99)


def _fill() -> tuple[Router, list[int]]:
    """A router that has seen a million links go to 512 replicas."""
    fleet = Fleet(REPLICAS, EngineConstants(kv_tokens=2 * 512))
    roster = SimulatedRoster(fleet)
    router = Router(roster, Settings(links_max=2**20), host="here")
    router.free(MODEL.id)
    claims = [EngineClaim(r.id, is_healthy=True, kv_tokens=2_000_000) for r in roster.all()]
    router.hear(Signal(1, 1, "keeper", engines=claims), (), 0.0)
    router.note_peers(PeerState.HEARD)
    sessions = list(range(1, _LINKS // _TURNS))
    now = 0.0
    for session in sessions:
        route = router.pick(_request(session, turns=_TURNS, number=session), (), now)
        router.sent(route, now)
        router.first_token(route, now)
        router.finished(route, Usage(route.prompt_tokens, 100, 0), now)
        now += _GAP_SECONDS
        if session % 12 == 0:
            router.tick(now)
            router.tell(now)
    return router, sessions


def _request(session: int, *, turns: int, number: int) -> InferenceRequest:
    """A conversation over one of a few system prompts."""
    random = Random(session)
    system = random.randrange(1, _SYSTEM_PROMPTS)
    links = (system, *(random.getrandbits(63) | 1 for _ in range(turns)))
    return InferenceRequest(
        id=RequestId(str(number)),
        account=AccountId("one"),
        key=KeyId("one"),
        model=MODEL,
        body={},
        is_stream=True,
        cache_salt="",
        chain=PromptChain(links=links, sizes=(_LINK_BYTES,) * len(links), earlier=len(links) - 1),
        session_key=session,
    )
