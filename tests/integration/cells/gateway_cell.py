"""Everything around one gateway under test: a database, an account with keys, engines, a catalogue.

The catalogue's test models all have the served name `scripted`, so that one engine can be a replica
of any of them.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx
import msgspec
import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from tests.integration.cells.cell_key import key_file, sealed_objects
from tests.integration.cells.gateway_process import GatewayProcess, Settings, eventually
from tests.integration.cells.runtime_dsn import runtime_dsn

from penstock.clock import new_id
from penstock.fleet.roster import RosterTable
from penstock.policy import AccountBook, KeyBook
from penstock.records.account import Role
from penstock.records.model import ModelId
from penstock.records.replica import Replica, ReplicaId, ReplicaState
from penstock.serving.settings import ServingSettings
from penstock.store import Store, StoreSettings
from penstock.store.kept_values import KeptValues
from penstock.testing import ScriptedEngine

SERVED = "scripted"
CHAT = "@cf/test/chat"
PLAIN = "@cf/test/plain"
NATIVE = "@cf/test/native"
PAIR = "@cf/test/pair"
PRIVATE = "@cf/test/private"
ABSENT = "@cf/test/absent"
THINKER = "@cf/test/thinker"
REPLIES = "@cf/test/replies"
# Its engines get chat for a Responses request.
COMPOSED = "@cf/test/composed"
# At a tenth of the others' price, and for nothing.
CHEAP = "@cf/test/cheap"
FREE = "@cf/test/free"

_ALL = ["tools", "vision", "reasoning", "structured_output", "async_queue"]
_ENTRIES: dict[str, tuple[str, list[str], list[str]]] = {
    CHAT: ("openai", _ALL, []),
    PLAIN: ("openai", [], []),
    NATIVE: ("native", ["tools", "structured_output", "async_queue"], []),
    PAIR: ("openai", _ALL, []),
    PRIVATE: ("openai", [], ["0" * 32]),
    ABSENT: ("openai", [], []),
    THINKER: ("openai", ["reasoning"], []),
    REPLIES: ("responses", _ALL, []),
    COMPOSED: ("openai", _ALL, []),
    CHEAP: ("openai", _ALL, []),
    FREE: ("openai", _ALL, []),
}
# In nano-dollars per token of the prompt; a token of the answer costs five times as much.
_PRICES: dict[str, int] = {CHEAP: 60, FREE: 0}

T = TypeVar("T")
Body = dict[str, Any]


class Cell:
    """One gateway and its surroundings. `key` is a runtime key of `account`."""

    def __init__(self, dsn: str, folder: Path, settings: Settings) -> None:
        self._stack = ExitStack()
        # Shared, because making a client costs more than most tests: it reads the machine's CAs.
        self.client = self._stack.enter_context(httpx.Client(timeout=30, trust_env=False))
        self.dsn = dsn
        self.account = ""
        self.key = ""
        self.key_id = ""
        self.operator_key = ""
        catalogue = folder / "catalogue"
        catalogue.mkdir()
        for number, model in enumerate(_ENTRIES):
            (catalogue / f"{number}.toml").write_text(entry_of(model))
        self.journal = folder / "journal"
        self.key_file = key_file(folder)
        places = {
            "catalogue.folder": str(catalogue),
            "metering.journal_folder": str(self.journal),
            "store.cell_key_file": self.key_file,
        }
        self.gateway = GatewayProcess(folder, {"store.dsn": runtime_dsn(dsn), **places, **settings})

    async def open_values(self, store: Store) -> KeptValues:
        """Return what reads and writes the payloads and results of this cell's jobs."""
        settings = StoreSettings(
            objects_url=f"file:{self.journal.parent}/penstock-state/objects",
            cell_key_file=self.key_file,
        )
        objects = sealed_objects(store, settings)
        await objects.open()
        return KeptValues(objects, ServingSettings())

    def set_up(self, *models: str, slots_live: int = 256) -> ScriptedEngine:
        """An account, its keys, one engine as replica of `models`, and then the gateway."""
        self.account, self.key_id, self.key = self.add_account("first")
        self.operator_key = self.run(_add_operator)
        engine = self.add_engine()
        for model in models:
            self.enroll(engine.url, model, slots_live=slots_live)
        self._stack.enter_context(self.gateway)
        return engine

    def close(self) -> None:
        self._stack.close()

    def run(self, act: Callable[[Store], Awaitable[T]]) -> T:
        """Do something in the cell's database."""

        async def with_store() -> T:
            store = Store(StoreSettings(dsn=self.dsn))
            await store.open()
            try:
                return await act(store)
            finally:
                await store.close()

        return asyncio.run(with_store())

    def add_account(self, name: str) -> tuple[str, str, str]:
        """A new account with a runtime key: the account's id, the key's id, and its secret."""

        async def add(store: Store) -> tuple[str, str, str]:
            account = await AccountBook(store).create(name)
            key, secret = await KeyBook(store).create(Role.RUNTIME, account.id, name)
            return account.id, key.id, secret

        return self.run(add)

    def add_engine(self, **options: float) -> ScriptedEngine:
        """One more engine, in no roster yet. It ends with the cell."""
        return self._stack.enter_context(ScriptedEngine(model=SERVED, **options))

    def enroll(self, url: str, model: str, *, slots_live: int = 256) -> Replica:
        """List a replica as ready."""
        replica = Replica(
            id=ReplicaId(new_id()),
            model=ModelId(model),
            url=url,
            state=ReplicaState.READY,
            served_name=SERVED,
            slots_live=slots_live,
        )
        self.run(lambda store: RosterTable(store).enroll(replica, keeper="test"))
        return replica

    def withdraw(self, replica: Replica) -> None:
        gone = msgspec.structs.replace(replica, state=ReplicaState.GONE)
        self.run(lambda store: RosterTable(store).change(gone))

    def wait_for_replicas(self, model: str, count: int) -> None:
        label = f'model="{model}"'
        ready = "penstock_ready_replicas"
        eventually(lambda: self.gateway.metric(ready, label) == count)

    def wait_until_idle(self, seconds: float = 10.0) -> None:
        """Until nothing is in flight, waiting or ejected."""

        def is_idle() -> bool:
            held = ("penstock_in_flight", "penstock_waiting", "penstock_ejected_replicas")
            samples = self.gateway.metrics()
            return all(not value for (name, _), value in samples.items() if name in held)

        eventually(is_idle, seconds)

    # Asking

    def authorization(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.key}"}

    def path(self, tail: str) -> str:
        """A path of the Workers AI surface, in this cell's account."""
        return f"/client/v4/accounts/{self.account}/ai/{tail}"

    def post(
        self, path: str, body: object, *, headers: dict[str, str] | None = None
    ) -> httpx.Response:
        """POST as JSON, or as it is when it is bytes already."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.client.post(
            self.gateway.url + path,
            content=content,
            headers={**self.authorization(), **(headers or {})},
        )

    def chat(self, body: Body) -> httpx.Response:
        return self.post("/v1/chat/completions", body)

    def run_model(self, model: str, body: object) -> httpx.Response:
        return self.post(self.path(f"run/{model}"), body)

    def get(self, path: str, *, headers: dict[str, str] | None = None) -> httpx.Response:
        return self.client.get(
            self.gateway.url + path, headers={**self.authorization(), **(headers or {})}
        )


class CellFactory:
    """Makes cells out of a template database; each gets a database and a folder of its own."""

    def __init__(self, server: str, template: str, new_folder: Callable[[str], Path]) -> None:
        self._server = server
        self._template = template
        self._new_folder = new_folder

    @contextmanager
    def open(self, settings: Settings | None = None) -> Iterator[Cell]:
        """A cell that is not set up yet."""
        name = f"penstock_cell_{new_id().replace('-', '')}"
        create = sql.SQL("create database {} template {}")
        drop = sql.SQL("drop database {} with (force)")
        identifier = sql.Identifier(name)
        with psycopg.connect(self._server, autocommit=True) as connection:
            connection.execute(create.format(identifier, sql.Identifier(self._template)))
        dsn = make_conninfo(self._server, dbname=name)
        cell = Cell(dsn, self._new_folder("cell"), settings or {})
        try:
            yield cell
        finally:
            cell.close()
            with psycopg.connect(self._server, autocommit=True) as connection:
                connection.execute(drop.format(identifier))


def prompt(script: Body | None = None, text: str = "hello") -> list[Body]:
    """Messages that tell the engine how to behave."""
    content = text if script is None else f"{text}\n@script {json.dumps(script)}"
    return [{"role": "user", "content": content}]


def chat_body(model: str = CHAT, script: Body | None = None, **fields: object) -> Body:
    return {"model": model, "messages": prompt(script), **fields}


def new_body(model: str = CHAT, script: Body | None = None, **fields: object) -> Body:
    """A prompt that no replica holds: where it goes is decided by load and by chance."""
    return {"model": model, "messages": prompt(script, text=f"hello {new_id()}"), **fields}


def events_of(text: str) -> list[str]:
    """The data of each event of a stream; comments are left out."""
    events = [event for event in text.split("\n\n") if event]
    return [event.removeprefix("data: ") for event in events if not event.startswith(":")]


async def _add_operator(store: Store) -> str:
    _, secret = await KeyBook(store).create(Role.OPERATOR, None, "operator")
    return secret


def entry_of(model: str) -> str:
    family, capabilities, accounts = _ENTRIES[model]
    name = model.rsplit("/", 1)[1]
    field = "reasoning_content" if model in (THINKER, COMPOSED) else "reasoning"
    # Not said where it is the default: gateways of an earlier release read these entries too.
    responses = 'responses = "chat"' if model == COMPOSED else ""
    price = _PRICES.get(model, 600) * 10**6
    return f"""
id = "{model}"
aliases = ["{name}"]
description = "A model for tests, called {name}."
family = "{family}"
context_tokens = 100_000
capabilities = {json.dumps(capabilities)}
allowed_accounts = {json.dumps(accounts)}
reasoning_field = "{field}"
{responses}
[prices]
input_nanousd_per_mtok = {price}
output_nanousd_per_mtok = {price * 5}
[recipe]
served_name = "{SERVED}"
command = ["engine", "--port", "{{port}}"]
"""
