"""Replicas, prompts and routers for the tests of this folder."""

from typing import Any

from penstock.records.account import AccountId, KeyId
from penstock.records.model import Family, Model, ModelId, Recipe
from penstock.records.prompt_chain import PromptChain
from penstock.records.replica import Replica, ReplicaId, ReplicaStart, ReplicaState
from penstock.records.request import InferenceRequest, RequestId
from penstock.records.signal import Signal
from penstock.records.usage import Usage
from penstock.routing import Route, Router, RoutingSettings
from penstock.testing.sample_request import sample_request
from penstock.wire.prompt.chain import digest

MODEL = Model(ModelId("m"), Family.OPENAI, 100_000, Recipe(("x",)))


class Roster:
    """A roster that a test writes. Like the real one it hands out one tuple until it changes."""

    def __init__(self, *replicas: Replica) -> None:
        self.all: tuple[Replica, ...] = ()
        self._ready: dict[ModelId, tuple[Replica, ...]] = {}
        self.starts: dict[ModelId, ReplicaStart] = {}
        # Models that wake for requests.
        self.wakeful: dict[ModelId, ReplicaStart] = {}
        self.write(*replicas)

    def write(self, *replicas: Replica) -> None:
        self.all = replicas
        models = {each.model for each in replicas}
        self._ready = {
            model: tuple(r for r in replicas if r.model == model and r.state is ReplicaState.READY)
            for model in models
        }

    def ready(self, model: ModelId) -> tuple[Replica, ...]:
        return self._ready.get(model, ())

    def find(self, replica: ReplicaId) -> Replica | None:
        return next((each for each in self.all if each.id == replica), None)

    def starting(self, model: ModelId) -> ReplicaStart | None:
        return self.starts.get(model)

    def waking(self, model: ModelId) -> ReplicaStart | None:
        return self.wakeful.get(model)


def a_replica(name: str, slots: int = 256, **fields: Any) -> Replica:
    given = {
        "id": ReplicaId(name), "model": MODEL.id, "url": f"http://{name}",
        "state": ReplicaState.READY, "served_name": "m", "slots_live": slots, **fields,
    }  # fmt: skip
    return Replica(**given)


def replicas(count: int, slots: int = 256) -> tuple[Replica, ...]:
    return tuple(a_replica(f"r{number}", slots) for number in range(count))


def a_chain(*parts: str, size: int = 4000, earlier: int | None = None) -> PromptChain:
    """A link for each part, covering all before it; the first two are tools and system.

    The third part is what the user said first. Each part is `size` bytes long.
    """
    links = []
    link = 0
    for part in parts:
        link = digest(part, link)
        links.append(link)
    before = len(parts) - 2 if earlier is None else earlier
    opening = digest(parts[2]) if len(parts) > 2 else 0
    return PromptChain(
        tuple(links), (size,) * len(links), before if len(parts) > 4 else 0, True, opening
    )


def a_request(*parts: str, **fields: Any) -> InferenceRequest:
    """A streamed request with these parts; `session` is a number, as the session key."""
    size = fields.pop("size", 4000)
    key = fields.pop("session", 0)
    given = {
        "id": RequestId("1"), "account": AccountId("a"), "key": KeyId("k"), "model": MODEL,
        "body": {}, "is_stream": True, "cache_salt": "", "chain": a_chain(*parts, size=size),
        "session": f"session-{key}" if key else "", "session_key": key,
        "prompt_tokens_estimate": 100, **fields,
    }  # fmt: skip
    return sample_request(**given)


def a_router(*members: Replica, **fields: Any) -> Router:
    return Router(Roster(*members), RoutingSettings(**fields))


def send(router: Router, request: InferenceRequest, now: float, *excluded: str) -> Route:
    """Pick and send: its first token and its end are still to come."""
    route = router.pick(request, [ReplicaId(each) for each in excluded], now)
    router.sent(route, now)
    return route


def serve(
    router: Router, request: InferenceRequest, now: float, usage: Usage | None = None
) -> Route:
    """Send, and answer at once as an engine would that holds what was expected of it."""
    route = send(router, request, now)
    router.first_token(route, now + route.uncached / 15_000)
    used = usage or Usage(route.prompt_tokens, 10, route.expected_cached)
    router.finished(route, used, now + route.uncached / 15_000 + 0.1)
    return route


def place(router: Router, request: InferenceRequest, replica: str, now: float) -> Route:
    """Have a request served by this very replica, whatever the rule says."""
    others = [r.id for r in router._roster.ready(MODEL.id) if r.id != replica]
    route = router.pick(request, others, now)
    assert route.replica.id == replica
    router.sent(route, now)
    router.first_token(route, now + 0.01)
    router.finished(route, Usage(route.prompt_tokens, 10, route.expected_cached), now + 0.02)
    return route


def exchange(*routers: Router, now: float) -> None:
    """Each tells, and every other hears it."""
    told = [router.tell(now) for router in routers]
    for speaker, (loads, sent) in enumerate(told):
        signal = Signal(speaker + 1, int(now * 1e9), f"host-{speaker}", loads=loads)
        for listener, router in enumerate(routers):
            if listener != speaker:
                router.hear(signal, sent, now)
