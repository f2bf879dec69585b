"""The requests of the flex benchmark: live prompts, jobs, and both flooding a bare engine."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from random import Random

import httpx
import msgspec

LIVE_WORDS, LIVE_OUTPUT = 1_550, 16
JOB_WORDS, JOB_OUTPUT = 80, 48
# As many as a flood keeps open: far more than the engine runs at once.
_FLOOD_CONNECTIONS = 64
_TIMEOUT_SECONDS = 600.0
# Each is one token with the space before it.
_WORDS = (
    "river", "stone", "cloud", "paper", "glass", "window", "metal", "forest", "ocean", "summer",
    "winter", "garden", "bridge", "mountain", "signal", "engine", "orange", "purple", "silver",
    "market", "street", "bottle", "letter", "number", "music",
)  # fmt: skip

Body = dict[str, object]


class LiveAnswer(msgspec.Struct, frozen=True):
    """One request that somebody waited for. Times in seconds."""

    body: Body
    first_token_seconds: float
    ended_at: float
    prompt_tokens: int
    cached_tokens: int


def live_body(random: Random) -> Body:
    return _body(random, LIVE_WORDS, LIVE_OUTPUT) | {
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def job_body(random: Random) -> Body:
    return _body(random, JOB_WORDS, JOB_OUTPUT)


def _body(random: Random, words: int, output: int) -> Body:
    text = " ".join(random.choice(_WORDS) for _ in range(words))
    return {
        "messages": [{"role": "user", "content": text}],
        "max_tokens": output,
        "min_tokens": output,
        "ignore_eos": True,
        "temperature": 0,
    }


@asynccontextmanager
async def client(key: str = "") -> AsyncIterator[httpx.AsyncClient]:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(headers=headers, timeout=_TIMEOUT_SECONDS, limits=limits) as made:
        yield made


async def ask(caller: httpx.AsyncClient, url: str, model: str, body: Body) -> LiveAnswer:
    """Stream one live request, and take the time to its first token."""
    began = time.monotonic()
    first, usage = 0.0, b""
    async with caller.stream("POST", url, json=body | {"model": model}) as answer:
        assert answer.status_code == 200, await answer.aread()
        async for line in answer.aiter_lines():
            if not line.startswith("data: {"):
                continue
            event = msgspec.json.decode(line[6:])
            assert "error" not in event, event
            if not first and any(c["delta"].get("content") for c in event["choices"]):
                first = time.monotonic() - began
            if event.get("usage"):
                usage = line[6:].encode()
    counted = msgspec.json.decode(usage)["usage"]
    details = counted.get("prompt_tokens_details") or {}
    return LiveAnswer(
        body, first, time.monotonic(), counted["prompt_tokens"], details.get("cached_tokens") or 0
    )


async def stream_live(
    caller: httpx.AsyncClient, url: str, model: str, random: Random, pace: tuple[float, float]
) -> list[LiveAnswer]:
    """One request every interval, a fifth more or less, for so many seconds: the pace's two."""
    interval, seconds = pace
    asked: list[asyncio.Task[LiveAnswer]] = []
    end = time.monotonic() + seconds
    async with asyncio.TaskGroup() as group:
        while time.monotonic() < end:
            body = live_body(random)
            asked.append(group.create_task(ask(caller, url, model, body)))
            await asyncio.sleep(interval * random.uniform(0.8, 1.2))
    return [task.result() for task in asked]


async def flood(url: str, model: str, bodies: Sequence[Body], salt: str) -> float:
    """Send all of them to a bare engine as fast as it takes them; how long that took.

    With a salt of its own, so that nothing is found in the prefix cache that was computed before.
    """
    turns = asyncio.Semaphore(_FLOOD_CONNECTIONS)

    async def one(caller: httpx.AsyncClient, body: Body) -> None:
        async with turns:
            answer = await caller.post(url, json=body | {"model": model, "cache_salt": salt})
            assert answer.status_code == 200, answer.text

    async with client() as caller:
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for body in bodies:
                group.create_task(one(caller, body))
        return time.monotonic() - began


def tokens_of(answers: Iterable[LiveAnswer]) -> int:
    return sum(answer.prompt_tokens + LIVE_OUTPUT for answer in answers)
