"""Many chats that grow at once through one gateway, and where each of their turns was served."""

import asyncio
import contextlib
import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from random import Random

import msgspec
from tests.integration.cells.gateway_cell import Cell
from tests.integration.cells.gateway_process import eventually
from tests.integration.cells.raw_client import post_bytes

_PATH = "/v1/chat/completions"
_WAIT_SECONDS = 25.0
_USER_WORDS = 100
# Think times between turns: longer than workers take to tell each other where a turn went.
_THINK_SECONDS = (0.3, 0.6)
_WORDS = ("water", "gate", "turbine", "valve", "river", "pressure", "flow", "stone", "channel")


class Turn(msgspec.Struct):
    """One turn of a chat, as its client saw it; and who served it, as the gateway's log says."""

    session: int
    sent_at: float
    request: str = ""
    status: int = 0
    # Where the answer's head came from, and why that is not where the turn before was served.
    head_from: str = ""
    reason: str = ""
    # When the first piece of the answer came.
    began_at: float = 0.0
    error: str = ""
    is_done: bool = False
    # Another than `head_from` where that was lost between its head and its first piece.
    replica: str = ""
    # Where the turn before was served: its prompt is the longest that this one begins with.
    before: str = ""

    @property
    def is_whole(self) -> bool:
        return self.status == 200 and self.is_done and not self.error

    @property
    def is_moved(self) -> bool:
        return bool(self.before) and self.replica != self.before


class Crowd:
    """`sessions` chats that go on until the block ends; `turns` is all that they did.

    Each turn has a connection of its own, so that any worker may get it.
    """

    def __init__(self, cell: Cell, model: str, sessions: int, seed: int) -> None:
        self._cell = cell
        self._model = model
        self._sessions = range(sessions)
        self._seed = seed
        self._is_over = False
        self.turns: list[Turn] = []

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            for session in self._sessions:
                group.create_task(self._chat(session))
            yield
            self._is_over = True
        await asyncio.to_thread(self._read_log)

    async def window(self, turns: int) -> list[Turn]:
        """Let every chat begin and end so many turns more; all that began in that time."""
        start = time.monotonic()
        async with asyncio.timeout(_WAIT_SECONDS):
            while True:
                found = [turn for turn in self.turns if turn.sent_at >= start]
                ended = Counter(turn.session for turn in found)
                if all(ended[session] >= turns for session in self._sessions):
                    return found
                await asyncio.sleep(0.05)

    async def _chat(self, session: int) -> None:
        random = Random(f"{self._seed} {session}")
        name = f"session-{self._seed}-{session}"
        # Every other one has a name, the rest are known by how they begin.
        headers = {"x-session-id": name} if session % 2 else {}
        messages = [{"role": "system", "content": f"{name} {_text(random)}"}]
        while not self._is_over:
            await asyncio.sleep(random.uniform(*_THINK_SECONDS))
            messages.append({"role": "user", "content": _text(random)})
            body = {"model": self._model, "messages": messages, "stream": True}
            # Without chunks: the answer is over when the connection is.
            data = post_bytes(_PATH, body, self._cell.key, version="1.0", headers=headers)
            turn = Turn(session, time.monotonic())
            async with asyncio.timeout(_WAIT_SECONDS):
                text = await self._ask(data, turn)
            self.turns.append(turn)
            messages.append({"role": "assistant", "content": text or "nothing"})

    def _read_log(self) -> None:
        """Who served each turn. A log line is written a little after its answer has ended."""
        served: dict[str, str] = {}

        def is_complete() -> bool:
            lines = self._cell.gateway.request_lines()
            served.update((line["request"], line.get("replica", "")) for line in lines)
            return all(turn.request in served for turn in self.turns)

        eventually(is_complete)
        last: dict[int, str] = {}
        for turn in self.turns:
            turn.replica = served[turn.request]
            turn.before = last.get(turn.session, "")
            last[turn.session] = turn.replica

    async def _ask(self, data: bytes, turn: Turn) -> str:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self._cell.gateway.port, limit=2**20
        )
        try:
            writer.write(data)
            _read_head(await reader.readuntil(b"\r\n\r\n"), turn)
            rest = await reader.read(1)
            turn.began_at = time.monotonic()
            return _read_events(rest + await reader.read(), turn)
        finally:
            writer.close()


def _read_head(head: bytes, turn: Turn) -> None:
    first, *lines = head.decode("latin-1").strip().split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    turn.status = int(first.split(" ")[1])
    turn.request = headers["x-request-id"]
    turn.head_from = headers.get("x-penstock-replica", "")
    turn.reason = headers.get("x-penstock-session-moved", "")


def _read_events(body: bytes, turn: Turn) -> str:
    text = ""
    for line in body.decode().splitlines():
        if line.startswith("data: {"):
            event = json.loads(line[6:])
            turn.error = event.get("error", {}).get("code", turn.error)
            for choice in event.get("choices", ()):
                text += choice["delta"].get("content") or ""
        turn.is_done = turn.is_done or line == "data: [DONE]"
    return text


def moved_share(turns: list[Turn]) -> float:
    """The share of the sessions of these turns that moved in them."""
    sessions = {turn.session for turn in turns}
    return len({turn.session for turn in turns if turn.is_moved}) / len(sessions)


def _text(random: Random) -> str:
    return " ".join(random.choice(_WORDS) for _ in range(_USER_WORDS))
