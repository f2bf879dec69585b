"""The ledger beside a real engine's own usage: token by token, and to the nano-dollar."""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from tests.engine.real_cell import TEXT_MODEL, Cell
from tests.engine.recorded_engine import RecordedEngine
from tests.integration.cells.gateway_process import GatewayProcess, eventually

from penstock.clock import new_id
from penstock.fleet.roster import RosterTable
from penstock.policy import AccountBook, KeyBook
from penstock.records.account import Role
from penstock.records.model import ModelId
from penstock.records.replica import Replica, ReplicaId, ReplicaState
from penstock.store import Store, StoreSettings, migrate
from penstock.store.embedded import EmbeddedPostgres

MODEL = "@test/priced"
# Nano-dollars for one token: of the prompt, of a cached prompt, of the answer.
INPUT, CACHED, OUTPUT = 600, 150, 3000
_COMMENT = re.compile(r"^: cost-usd (\d+\.\d{9})$", re.MULTILINE)
_ENTRY = f"""
id = "{MODEL}"
family = "openai"
context_tokens = 8192
[prices]
input_nanousd_per_mtok = {INPUT * 10**6}
cached_input_nanousd_per_mtok = {CACHED * 10**6}
output_nanousd_per_mtok = {OUTPUT * 10**6}
[recipe]
served_name = "{TEXT_MODEL}"
command = ["engine", "--port", "{{port}}"]
"""

Body = dict[str, Any]


class PricedGateway:
    """A gateway of its own, with a price on the real engine's model."""

    def __init__(self, dsn: str, key: str, process: GatewayProcess, engine: RecordedEngine) -> None:
        self._dsn = dsn
        self.engine = engine
        self.url = f"{process.url}/v1/chat/completions"
        headers = {"authorization": f"Bearer {key}", "x-penstock-cost": "1"}
        self.client = httpx.Client(headers=headers, timeout=300, trust_env=False)

    def row(self, request: str) -> dict[str, Any]:
        """The one row of a request, as soon as it is in the ledger."""
        eventually(lambda: len(self._rows(request)) > 0, 20)
        (row,) = self._rows(request)
        return row

    def _rows(self, request: str) -> list[dict[str, Any]]:
        with psycopg.connect(self._dsn, row_factory=psycopg.rows.dict_row) as connection:
            statement = "select * from usage_attempts where request = %s::uuid"
            return connection.execute(statement, (request,)).fetchall()


@pytest.fixture(scope="module")
def priced(cell: Cell, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PricedGateway]:
    folder = tmp_path_factory.mktemp("priced")
    server = EmbeddedPostgres(Path(cell.state) / "postgres").dsn
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("create database priced")
    dsn = make_conninfo(server, dbname="priced")
    (folder / "catalogue").mkdir()
    (folder / "catalogue" / "priced.toml").write_text(_ENTRY)
    places = {"catalogue.folder": folder / "catalogue", "metering.journal_folder": folder / "j"}
    settings = {"store.dsn": dsn, **{name: str(path) for name, path in places.items()}}
    behind = cell.engine(TEXT_MODEL)
    with RecordedEngine(behind.url) as engine:
        key = asyncio.run(_prepare(dsn, engine.url, behind.engine_key))
        with GatewayProcess(folder, settings) as process:
            gateway = PricedGateway(dsn, key, process, engine)
            with gateway.client:
                yield gateway


async def _prepare(dsn: str, engine_url: str, engine_key: str) -> str:
    await migrate(dsn)
    store = Store(StoreSettings(dsn=dsn))
    await store.open()
    try:
        account = await AccountBook(store).create("priced")
        _, secret = await KeyBook(store).create(Role.RUNTIME, account.id, "priced")
        replica = Replica(
            id=ReplicaId(new_id()),
            model=ModelId(MODEL),
            url=engine_url,
            state=ReplicaState.READY,
            served_name=TEXT_MODEL,
            engine_key=engine_key,
        )
        await RosterTable(store).enroll(replica, keeper="test")
    finally:
        await store.close()
    return secret


def _turn(priced: PricedGateway, messages: list[Body], *, stream: bool) -> tuple[str, Body, str]:
    """One turn: the answer's text, the ledger's row, and the cost that the answer told."""
    body: Body = {"model": MODEL, "messages": messages, "max_tokens": 12, "temperature": 0}
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    answer = priced.client.post(priced.url, json=body)
    assert answer.status_code == 200, answer.text
    row = priced.row(answer.headers["x-request-id"])
    if not stream:
        usage = answer.json()["usage"]
        text = answer.json()["choices"][0]["message"]["content"]
        cost = answer.headers["x-penstock-cost-usd"]
    else:
        lines = [line[6:] for line in answer.text.splitlines() if line.startswith("data: {")]
        chunks = [json.loads(line) for line in lines]
        usage = chunks[-1]["usage"]
        parts = [c["choices"][0]["delta"].get("content") or "" for c in chunks if c["choices"]]
        text = "".join(parts)
        found = _COMMENT.search(answer.text)
        assert found is not None
        cost = found[1]
    assert usage["prompt_tokens"] == row["prompt_tokens"]
    assert usage["completion_tokens"] == row["output_tokens"]
    return text, row, cost


def _check_against_the_engine(priced: PricedGateway, row: Body) -> None:
    usage = priced.engine.usages()[-1]
    assert row["prompt_tokens"] == usage["prompt_tokens"]
    assert row["output_tokens"] == usage["completion_tokens"]
    assert row["cached_tokens"] == usage["prompt_tokens_details"]["cached_tokens"]
    assert not row["is_cached_estimated"]
    assert (row["outcome"], row["charge_reason"]) == ("ok", "")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_two_turns_are_charged_as_the_engine_counted_them(
    priced: PricedGateway, *, stream: bool
) -> None:
    # Longer than a block of the engine's cache, which has 128 tokens on a CPU.
    story = f"Stream: {stream}. " + "The river ran down to the sea past the old mill. " * 40
    messages: list[Body] = [{"role": "user", "content": story}]
    text, first, cost = _turn(priced, messages, stream=stream)
    _check_against_the_engine(priced, first)
    assert cost == _dollars(first)
    messages += [{"role": "assistant", "content": text}, {"role": "user", "content": "And then?"}]
    _, second, cost = _turn(priced, messages, stream=stream)
    _check_against_the_engine(priced, second)
    assert second["cached_tokens"] >= 128
    assert second["cached_tokens"] < second["prompt_tokens"]
    assert cost == _dollars(second)


def _dollars(row: Body) -> str:
    """By hand; and it is what the row says."""
    uncached = row["prompt_tokens"] - row["cached_tokens"]
    nano = uncached * INPUT + row["cached_tokens"] * CACHED + row["output_tokens"] * OUTPUT
    assert row["charge_nanousd"] == nano
    return f"{nano // 10**9}.{nano % 10**9:09d}"


def test_a_stream_that_the_client_cuts_has_an_exact_count(priced: PricedGateway) -> None:
    body = {
        "model": MODEL,
        "messages": [{"role": "user", "content": "Tell a very long story."}],
        "max_tokens": 2000,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "ignore_eos": True,
    }
    received = 0
    with priced.client.stream("POST", priced.url, json=body) as answer:
        request = answer.headers["x-request-id"]
        for line in answer.iter_lines():
            if line.startswith("data: {"):
                received = json.loads(line[6:])["usage"]["completion_tokens"]
            if received >= 10:
                break
    row = priced.row(request)
    assert row["outcome"] == "client_left"
    assert received <= row["output_tokens"]
    # The last that the engine sent, unless one more was under way when the gateway hung up.
    last = priced.engine.usages()[-2:]
    assert row["output_tokens"] in [usage["completion_tokens"] for usage in last]
    assert row["prompt_tokens"] == last[-1]["prompt_tokens"]
    # The engine tells what was cached at the end only: until then it is what routing expected.
    assert row["is_cached_estimated"]
    assert row["cached_tokens"] == min(row["cached_expected"], row["prompt_tokens"])
    _dollars(row)
