"""Callers that hang up on purpose, on each API, and what the ledger and the limits have of it."""

import json
import os
import select
import signal
from typing import Any

import msgspec
from tests.integration.cells.gateway_cell import CHAT, Cell
from tests.integration.cells.gateway_process import eventually
from tests.integration.cells.metering_lines import added_up, attempts, hours
from tests.integration.cells.raw_client import RawClient, post_bytes

from penstock.clock import new_id
from penstock.records.price import Price, cost_nanousd
from penstock.records.usage import Usage
from penstock.store import Store
from penstock.testing import ScriptedEngine

Row = dict[str, Any]
QUICK = {
    "admission.limits_refresh_seconds": 0.1,
    "metering.drain_seconds": 0.05,
    "metering.adopt_seconds": 0.2,
}
CHATS, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
# The test models' price.
PRICE = Price(600_000_000, 600_000_000, 3_000_000_000)


class Call(msgspec.Struct, frozen=True):
    """One request: where it goes, and whether its answer is streamed."""

    path: str
    is_stream: bool

    def body(self, text: str, script: Row, max_tokens: int) -> Row:
        said = f"{text}\n@script {json.dumps(script)}"
        body: Row = {"model": CHAT, "stream": self.is_stream}
        if self.path == RESPONSES:
            return {**body, "input": said, "max_output_tokens": max_tokens}
        messages = [{"role": "user", "content": said}]
        return {**body, "messages": messages, "max_tokens": max_tokens}

    def __str__(self) -> str:
        return f"{self.path[4:]}{' stream' if self.is_stream else ''}"


def hang_up_before_first_token(
    cell: Cell, engine: ScriptedEngine, call: Call, secret: str, text: str, tag: str = ""
) -> bool:
    """Send, leave when the engine has the request, and wait until it is settled.

    False when the gateway refused the request for its limits.
    """
    before = engine.state().requests
    body = call.body(text, {"stall_before_head": 60}, max_tokens=16)
    with RawClient(cell.gateway.port) as client:
        client.send(post_bytes(call.path, body, secret, headers={"x-request-id": tag or new_id()}))
        eventually(lambda: engine.state().requests == before + 1 or is_answered(client))
        if is_answered(client):
            assert client.read_head()[1] == 429
            return False
    cell.wait_until_idle()
    return True


def is_answered(client: RawClient) -> bool:
    return bool(select.select([client.socket], [], [], 0)[0])


def kill(cell: Cell) -> None:
    """kill -9 of a gateway and its workers."""
    for pid in {*cell.gateway.worker_pids(), cell.gateway.pid}:
        os.kill(pid, signal.SIGKILL)
    cell.gateway.wait()


def rows_tagged(cell: Cell, tag: str, count: int = 1) -> list[Row]:
    """The rows of a request by its caller's own id, as soon as they are drained."""
    found: list[Row] = []

    async def read(store: Store) -> list[Row]:
        return [row for row in await attempts(store) if row["caller_request"] == tag]

    def is_there() -> bool:
        found[:] = cell.run(read)
        return len(found) >= count

    eventually(is_there)
    assert len(found) == count
    return found


def check_estimated(row: Row) -> None:
    """Marked, and charged for exactly the tokens that it says."""
    usage = Usage(row["prompt_tokens"], row["output_tokens"], row["cached_tokens"])
    assert row["charge_reason"] == "estimated"
    assert row["charge_nanousd"] == cost_nanousd(usage, PRICE) > 0


def check_sums(cell: Cell) -> None:
    """Hourly sums, and what is booked on each limit, come to the same as the rows.

    Not at once: a drain may commit between two of these questions.
    """
    eventually(lambda: not cell.run(_differences))


async def _differences(store: Store) -> list[str]:
    rows, sums = await attempts(store), await hours(store)
    async with store.transaction() as transaction:
        booked = await transaction.fetch(_BOOKED)
    total = added_up(rows)
    found = [name for name in total if sum(hour[name] for hour in sums) != total[name]]
    for account, measure, amount in booked:
        own = [row for row in rows if row["account"] == account]
        if amount != sum(_used(row, measure) for row in own):
            found.append(f"{measure} of {account}")
    return found


_BOOKED = """
    select l.account, l.measure, sum(s.amount)::bigint
    from limit_spend s join limits l on l.id = s.limit_id group by 1, 2
"""


def _used(row: Row, measure: str) -> int:
    if measure == "tokens":
        return (row["prompt_tokens"] or 0) + (row["output_tokens"] or 0)
    return int(row["charge_nanousd"]) if measure == "nanousd" else 1
