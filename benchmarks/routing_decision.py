"""What one choice among 512 replicas costs in CPU, with a million links known.

`python benchmarks/routing_decision.py [--links 1000000]` decides for prompts of 40 messages and
1 MB, and prints one line of JSON: hashing the prompt, choosing, and both, beside a calibration loop
that ran in between. Reading the body is not in it: that is done once, whoever routes.
"""

import argparse
import gc
import tempfile
import time
from random import Random
from statistics import median

import msgspec

from fleet_simulator.engine_constants import EngineConstants
from fleet_simulator.figures import percentile
from fleet_simulator.fleet import Fleet
from fleet_simulator.penstock_gateway import MODEL, SimulatedRoster
from penstock.records.account import AccountId, KeyId
from penstock.records.host_load import HostLoad
from penstock.records.prompt_chain import PromptChain
from penstock.records.request import InferenceRequest, RequestId
from penstock.records.signal import EngineClaim, PeerState, Signal
from penstock.records.usage import Usage
from penstock.routing import Router, RoutingSettings
from penstock.signals import LoadTable, SignalsSettings, open_table
from penstock.testing.sample_request import sample_request
from penstock.wire.apis.chat import read_chat
from penstock.wire.apis.prompt_request import PromptRequest
from penstock.wire.json_body import Fields
from penstock.wire.prompt.chain import digest, prompt_chain
from penstock.wire.prompt.chat_body import ChatBodyReader
from soak_calibration import loop_microseconds

REPLICAS = 512
_LINKS = 1_000_000
_LINK_BYTES = 2_400
_TURNS = 10
_SYSTEM_PROMPTS = 20
_DECISIONS = 20_000
# Between two decisions at 1,160 requests a second.
_GAP_SECONDS = 1 / 1_160
_MESSAGES = 40
_MESSAGE_BYTES = 25_000
# Together larger than a processor's cache: what was seen of a prompt before is not in it.
_LONG_PROMPTS = 64
_LONG_DECISIONS = 1_000
_DECIDING_AT = 1e4
# Every 10 ms or so, see app/gateway_worker.py.
_TICK_DECISIONS = 12


class LongDecision(msgspec.Struct, frozen=True):
    """CPU time of deciding where a long prompt goes; in loops, of the calibration loop's time."""

    replicas: int
    links: int
    messages: int
    prompt_bytes: int
    hash_us: float
    pick_us: float
    decision_us: float
    decision_p99_us: float
    calibration_us: float
    hash_loops: float
    decision_loops: float


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU of routing one long prompt.")
    parser.add_argument("--links", type=int, default=_LINKS)
    links = parser.parse_args().links
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        print(msgspec.json.encode(long_decision(links, folder)).decode())


def long_decision(links: int, folder: str) -> LongDecision:
    """For prompts whose turn before is known, in a worker that has another one beside it."""
    table, neighbour = (_open_table(folder) for _ in range(2))
    router, _ = _fill(links, table)
    replicas = [known.replica.id for known in router.knowledge.all()]
    bodies = [_long_body(number) for number in range(_LONG_PROMPTS)]
    now = _DECIDING_AT
    for number, body in enumerate(bodies):
        prompt = _read(body)
        chain, session = _hash(prompt, prompt.messages[:-2])
        _serve(router, _request(chain, session, number), now)
    _leave_out_of_collections()
    random = Random(3)
    hashing, choosing, loops = [], [], []
    for number in range(_LONG_DECISIONS):
        if number % _TICK_DECISIONS == 0:
            for worker in (table, neighbour):
                worker.beat(now)
            router.tick(now)
        neighbour.write(random.choice(replicas), HostLoad(900.0, 400.0, now, now, 3.0, 2.0, 30e3))
        prompt = _read(bodies[number % _LONG_PROMPTS])
        start = time.process_time_ns()
        chain, session = _hash(prompt, prompt.messages)
        hashing.append((time.process_time_ns() - start) / 1000)
        request = _request(chain, session, number)
        start = time.process_time_ns()
        router.free(MODEL.id)
        router.pick(request, (), now)
        choosing.append((time.process_time_ns() - start) / 1000)
        loops.append(loop_microseconds())
        now += _GAP_SECONDS
    return _told(links, hashing, choosing, loops)


def decision_microseconds() -> tuple[float, float]:
    """CPU time of `Router.pick` for prompts of a few turns: median and p99."""
    router, sessions = _fill(_LINKS)
    _leave_out_of_collections()
    random = Random(2)
    now, ticked, costs = _DECIDING_AT, 0.0, []
    for number in range(_DECISIONS):
        session = random.choice(sessions)
        chain = _known_chain(session, turns=random.randint(2, _TURNS) + 1)
        request = _request(chain, session, number)
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


def _fill(links: int, table: LoadTable | None = None) -> tuple[Router, list[int]]:
    """A router that has seen so many links go to 512 replicas."""
    fleet = Fleet(REPLICAS, EngineConstants(kv_tokens=2 * 512))
    roster = SimulatedRoster(fleet)
    router = Router(roster, RoutingSettings(links_max=2**20), table, host="here")
    router.free(MODEL.id)
    claims = [EngineClaim(r.id, is_healthy=True, kv_tokens=2_000_000) for r in roster.all()]
    router.hear(Signal(1, 1, "keeper", engines=claims), (), 0.0)
    router.note_peers(PeerState.HEARD)
    sessions = list(range(1, links // _TURNS))
    now = 0.0
    for session in sessions:
        _serve(router, _request(_known_chain(session, turns=_TURNS), session, session), now)
        now += _GAP_SECONDS
        if session % _TICK_DECISIONS == 0:
            router.tick(now)
            router.tell(now)
    return router, sessions


def _serve(router: Router, request: InferenceRequest, now: float) -> None:
    """All of a request at once, with nothing cached for it."""
    route = router.pick(request, (), now)
    router.sent(route, now)
    router.first_token(route, now)
    router.finished(route, Usage(route.prompt_tokens, 100, 0), now)


def _leave_out_of_collections() -> None:
    """As a gateway worker has it: what was built before is left out of collections."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)


def _open_table(folder: str) -> LoadTable:
    table = open_table(SignalsSettings(folder=folder), _DECIDING_AT)
    assert table is not None
    return table


def _request(chain: PromptChain, session: int, number: int) -> InferenceRequest:
    return sample_request(
        id=RequestId(str(number)),
        account=AccountId("one"),
        key=KeyId("one"),
        model=MODEL,
        body={},
        is_stream=True,
        cache_salt="",
        chain=chain,
        session_key=session,
    )


def _known_chain(session: int, *, turns: int) -> PromptChain:
    """A conversation over one of a few system prompts."""
    random = Random(session)
    system = random.randrange(1, _SYSTEM_PROMPTS)
    links = (system, *(random.getrandbits(62) | 1 for _ in range(turns)))
    return PromptChain(links=links, sizes=(_LINK_BYTES,) * len(links), earlier=len(links) - 1)


def _long_body(number: int) -> bytes:
    """An agent's turns, each of several pages."""
    page = f"{number}: The quick brown fox jumps over the lazy dog. "
    text = page * (_MESSAGE_BYTES // len(page))
    messages = [
        {"role": "assistant" if turn % 2 else "user", "content": f"{turn} {text}"}
        for turn in range(_MESSAGES)
    ]
    return msgspec.json.encode({"model": "m", "user": f"session-{number}", "messages": messages})


def _read(body: bytes) -> PromptRequest:
    """As the gateway does before it decides."""
    parsed = ChatBodyReader().read(body)
    return read_chat(parsed.fields, frozenset(), parsed)


def _hash(prompt: PromptRequest, messages: list[Fields]) -> tuple[PromptChain, int]:
    """All that is hashed for a decision, as ingress does it: root, links, session."""
    seed = digest("a salt of the account")
    root = digest(MODEL.id, seed)
    chain = prompt_chain(root, prompt.fields, messages, prompt.media, 0)
    return chain, digest(prompt.fields["user"], seed)


def _told(
    links: int, hashing: list[float], choosing: list[float], loops: list[float]
) -> LongDecision:
    whole = sorted(map(sum, zip(hashing, choosing, strict=True)))
    loop = median(loops)
    return LongDecision(
        replicas=REPLICAS,
        links=links,
        messages=_MESSAGES,
        prompt_bytes=_MESSAGES * _MESSAGE_BYTES,
        hash_us=round(median(hashing), 1),
        pick_us=round(median(choosing), 1),
        decision_us=round(median(whole), 1),
        decision_p99_us=round(percentile(whole, 0.99), 1),
        calibration_us=round(loop, 1),
        hash_loops=round(median(hashing) / loop, 3),
        decision_loops=round(median(whole) / loop, 3),
    )


if __name__ == "__main__":
    main()
