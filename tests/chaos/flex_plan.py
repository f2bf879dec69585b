"""What is submitted: who sends how much through which door, made from the seed alone."""

import json
import random
from enum import StrEnum
from typing import Any

import msgspec
from tests.chaos.flex_cell import MODEL

# Parcels that are due are sent together, so that a kill finds some of them half submitted.
BURST_SECONDS = 1.5
_INTERVAL_SECONDS = 0.1
_TOKENS = 4, 24


class Door(StrEnum):
    """Workers AI's `queueRequest`, OpenAI's batches, and a single request by `Prefer`."""

    WORKERS_AI = "workers_ai"
    BATCHES = "batches"
    SINGLE = "single"


class Parcel(msgspec.Struct, frozen=True):
    """What one client submits at once. `key` is its idempotency key."""

    number: int
    customer: int
    door: Door
    prompts: tuple[str, ...]
    # Submitted a second time under the same key, as by a client that had not heard the answer.
    is_repeated: bool

    @property
    def key(self) -> str:
        return f"parcel-{self.number}"

    def chat(self, item: int) -> dict[str, Any]:
        """A request as each of the doors takes it."""
        messages = [{"role": "user", "content": self.prompts[item]}]
        return {"messages": messages, "max_tokens": _TOKENS[1]}

    def lines(self) -> bytes:
        """The whole parcel as a batch file."""
        path = "/v1/chat/completions"
        lines = [
            {"custom_id": f"{self.number}-{item}", "method": "POST", "url": path,
             "body": {"model": MODEL, **self.chat(item)}}
            for item in range(len(self.prompts))
        ]  # fmt: skip
        return b"\n".join(json.dumps(line).encode() for line in lines)


def plan_parcels(source: random.Random, *, jobs: int, customers: int) -> list[Parcel]:
    """So many jobs in all, in an order as good as any."""
    parcels: list[Parcel] = []
    left = jobs
    while left:
        door = source.choices(list(Door), weights=(6, 1, 3))[0]
        wanted = {Door.SINGLE: 1, Door.WORKERS_AI: source.randint(1, 25)}.get(
            door, source.randint(20, 120)
        )
        count = min(wanted, left)
        left -= count
        number = len(parcels)
        parcels.append(
            Parcel(
                number=number,
                # Everybody first, so that all take part however few parcels there are.
                customer=number if number < customers else source.randrange(customers),
                door=door,
                prompts=tuple(_prompt(source, number, item) for item in range(count)),
                is_repeated=source.random() < 0.1,
            )
        )
    return parcels


def _prompt(source: random.Random, number: int, item: int) -> str:
    """It tells the engine to take a while, so that kills find it at work."""
    script = {"tokens": source.randint(*_TOKENS), "interval": _INTERVAL_SECONDS}
    return f"parcel {number}, item {item}\n@script {json.dumps(script)}"
