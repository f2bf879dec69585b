"""Agents' conversations over two real engines: each turn finds the cache of the turn before.

The conversations go through two gateways. What they find is compared with what one engine alone
would find, and with what turns would find on an engine drawn by lot. Both are computed from the
same turns and the engines' block size; with `--full` two more arms measure them as well, each with
a cache salt of its own so that no arm finds another's cache.
"""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import httpx
import msgspec
import pytest
from tests.engine.real_cell import TEXT_MODEL
from tests.engine.routing_cell import BLOCK_TOKENS, RoutingCell, reads_slowly, routing_cell

# Two slow cores read a hundred tokens in a second: four minutes for six sessions of four turns.
SESSIONS, TURNS = (4, 3) if reads_slowly() else (20, 6)
# A word is a little more than one token: 2,000 of a shared prompt, and 400 more in each turn.
SHARED_WORDS = 1_900
TURN_WORDS = 378
NEW_TOKENS_MIN = 400
# All begin at once, so that both engines get the shared prompt; later each has a turn at a time.
AT_ONCE = 2
# Prompts of nobody's conversation, one after the other: what each engine can do is known then.
EARLIER_PROMPTS = 10
SEED = 20

_WORDS = (
    "water", "gate", "turbine", "valve", "river", "pressure", "flow", "stone", "channel", "level",
    "sluice", "wheel", "dam", "spill", "intake", "tunnel", "head", "mill", "weir", "bridge", "bank",
    "storm", "rain", "snow", "lake", "field", "road", "house", "door", "window",
)  # fmt: skip

Body = dict[str, Any]


class Turn(msgspec.Struct, frozen=True):
    """What one turn's answer told."""

    session: int
    number: int
    prompt_tokens: int
    cached_tokens: int
    text: str
    replica: str
    moved: str


class Conversations:
    """The same conversations for every arm; an arm says where a turn is sent, and how."""

    def __init__(self, client: httpx.Client) -> None:
        random = Random(SEED)
        self._client = client
        self.shared = {"role": "system", "content": _text(random, SHARED_WORDS)}
        self._asked = [[_text(random, TURN_WORDS) for _ in range(TURNS)] for _ in range(SESSIONS)]
        self._order = [random.sample(range(SESSIONS), SESSIONS) for _ in range(TURNS)]

    def run(self, send: Callable[[int, list[Body]], httpx.Request]) -> list[Turn]:
        """All of them, turn by turn, in another order each time, a few at once."""
        messages: list[list[Body]] = [[self.shared] for _ in range(SESSIONS)]
        done: list[Turn] = []
        for number, order in enumerate(self._order, 1):
            with ThreadPoolExecutor(AT_ONCE if number > 1 else SESSIONS) as pool:
                requests = []
                for session in order:
                    words = self._asked[session][number - 1]
                    messages[session].append({"role": "user", "content": words})
                    requests.append(send(session, messages[session]))
                answers = pool.map(self._read, requests)
                for session, (answer, text) in zip(order, answers, strict=True):
                    messages[session].append({"role": "assistant", "content": text})
                    done.append(_turn(session, number, answer, text))
        return done

    def _read(self, request: httpx.Request) -> tuple[httpx.Response, str]:
        answer = self._client.send(request)
        assert answer.status_code == 200, answer.text
        deltas = [c["choices"][0]["delta"] for c in _chunks(answer) if c["choices"]]
        return answer, "".join(delta.get("content") or "" for delta in deltas)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RoutingCell]:
    with routing_cell(tmp_path_factory.mktemp("routing")) as started:
        yield started


@pytest.mark.timeout(1_200)
def test_conversations_find_their_cache_through_two_gateways(
    pair: RoutingCell, pytestconfig: pytest.Config
) -> None:
    with httpx.Client(timeout=300, trust_env=False) as client:
        conversations = Conversations(client)
        shared = _count(client, pair, [conversations.shared])
        send = _through_gateways(pair, client)
        _serve_others(client, send)
        routed = conversations.run(send)
        others = {"alone": _on_one(routed), "drawn by lot": _drawn_by_lot(routed)}
        if pytestconfig.getoption("--full", default=False):
            others |= _measured_arms(pair, client, conversations)
    hits = _hit_ratio(routed, shared)
    homes = _homes(routed)
    other_hits = {name: _hit_ratio(arm, shared) for name, arm in others.items()}
    told = f"hits {hits}, {other_hits}, sessions {homes}"
    print(told)
    assert shared >= 2_000
    assert _growth(routed, shared) >= NEW_TOKENS_MIN
    for name, other in other_hits.items():
        assert hits >= (0.95 if name.startswith("alone") else 1.25) * other, told
    missed = [turn for turn in routed if turn.number > 1 and turn.cached_tokens <= shared]
    assert not missed, told
    # Each engine has its part, or it would be no feat to find every cache on one.
    assert min(homes.get(replica.id, 0) for replica in pair.replicas) >= max(1, SESSIONS // 10), (
        told
    )
    _check_moves(routed)


def _on_one(turns: list[Turn]) -> list[Turn]:
    """The same turns as one engine would count them that has every turn before in its cache."""
    return _replayed(turns, lambda: 0)


def _drawn_by_lot(turns: list[Turn]) -> list[Turn]:
    """The same turns, each on an engine drawn by lot, with the cache of what came there before."""
    lots = Random(SEED)
    return _replayed(turns, lambda: lots.randrange(2))


def _replayed(turns: list[Turn], choose: Callable[[], int]) -> list[Turn]:
    """Engines cache whole blocks, and a session's prompt begins with its prompts before."""
    before: dict[tuple[int, int], int] = {}
    found = []
    for turn in turns:
        place = choose(), turn.session
        cached = before.get(place, 0) // BLOCK_TOKENS * BLOCK_TOKENS
        before[place] = turn.prompt_tokens
        found.append(msgspec.structs.replace(turn, cached_tokens=cached))
    return found


def _measured_arms(
    cell: RoutingCell, client: httpx.Client, conversations: Conversations
) -> dict[str, list[Turn]]:
    lots = Random(SEED)
    alone = _straight(cell, client, "alone", lambda: 0)
    drawn = _straight(cell, client, "lots", lambda: lots.randrange(2))
    return {
        "alone, measured": conversations.run(alone),
        "drawn by lot, measured": conversations.run(drawn),
    }


def _through_gateways(
    cell: RoutingCell, client: httpx.Client
) -> Callable[[int, list[Body]], httpx.Request]:
    """Each turn through a gateway drawn by lot. Every other session has a name, the rest none."""
    lots = Random(SEED)

    def send(session: int, messages: list[Body]) -> httpx.Request:
        headers = {"authorization": f"Bearer {cell.key}"}
        if session % 2:
            headers["x-session-id"] = f"session-{session}"
        url = f"{lots.choice(cell.gateways)}/v1/chat/completions"
        return client.build_request("POST", url, json=_body(messages), headers=headers)

    return send


def _serve_others(client: httpx.Client, send: Callable[[int, list[Body]], httpx.Request]) -> None:
    random = Random(SEED + 1)
    for number in range(EARLIER_PROMPTS):
        prompt = {"role": "user", "content": _text(random, TURN_WORDS)}
        assert client.send(send(SESSIONS + number, [prompt])).status_code == 200


def _straight(
    cell: RoutingCell, client: httpx.Client, salt: str, choose: Callable[[], int]
) -> Callable[[int, list[Body]], httpx.Request]:
    def send(_: int, messages: list[Body]) -> httpx.Request:
        url = f"{cell.replicas[choose()].url}/v1/chat/completions"
        return client.build_request("POST", url, json={**_body(messages), "cache_salt": salt})

    return send


def _body(messages: list[Body]) -> Body:
    return {
        "model": TEXT_MODEL,
        "messages": messages,
        "max_tokens": 1,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def _turn(session: int, number: int, answer: httpx.Response, text: str) -> Turn:
    usage = _chunks(answer)[-1]["usage"]
    return Turn(
        session,
        number,
        usage["prompt_tokens"],
        usage["prompt_tokens_details"]["cached_tokens"],
        text,
        answer.headers.get("x-penstock-replica", ""),
        answer.headers.get("x-penstock-session-moved", ""),
    )


def _chunks(answer: httpx.Response) -> list[Body]:
    lines = answer.text.splitlines()
    return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]


def _count(client: httpx.Client, cell: RoutingCell, messages: list[Body]) -> int:
    """Tokens of messages, as the engine counts them."""
    body = {"model": TEXT_MODEL, "messages": messages, "add_generation_prompt": False}
    return int(client.post(f"{cell.replicas[0].url}/tokenize", json=body).json()["count"])


def _hit_ratio(turns: list[Turn], shared: int) -> float:
    """The cached share of all tokens that stand behind the shared prompt."""
    cached = sum(max(0, turn.cached_tokens - shared) for turn in turns)
    return round(cached / sum(turn.prompt_tokens - shared for turn in turns), 4)


def _growth(turns: list[Turn], shared: int) -> int:
    """New tokens of the turn that brought the fewest."""
    before = dict.fromkeys(range(SESSIONS), shared)
    least = 10**9
    for turn in turns:
        least = min(least, turn.prompt_tokens - before[turn.session])
        before[turn.session] = turn.prompt_tokens
    return least


def _homes(turns: list[Turn]) -> dict[str, int]:
    """Sessions by the replica that had their last turn."""
    homes: dict[str, int] = {}
    for turn in turns:
        if turn.number == TURNS:
            homes[turn.replica] = homes.get(turn.replica, 0) + 1
    return homes


def _check_moves(turns: list[Turn]) -> None:
    """At most one in a hundred turns, or one, and each says why."""
    last: dict[int, str] = {}
    moved = 0
    for turn in turns:
        assert turn.replica
        if turn.number > 1 and turn.replica != last[turn.session]:
            moved += 1
            assert turn.moved in {"load", "drain", "lost"}, turn
        last[turn.session] = turn.replica
    assert moved <= max(1, len(turns) // 100)


def _text(random: Random, words: int) -> str:
    return " ".join(random.choice(_WORDS) for _ in range(words))
