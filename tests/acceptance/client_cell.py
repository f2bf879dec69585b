"""A running `penstock up` as clients see it: an address, a key, an account; and what reached the
engines behind it, so that a test can compare what a client was told with what it really sent.
"""

import contextlib
import urllib.parse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import msgspec
import psycopg
from psycopg import sql
from tests.acceptance.cli_run import run_json, until
from tests.engine.real_cell import TEXT_MODEL, Cell, running_up

from penstock.store.embedded import EmbeddedPostgres
from penstock.testing import ScriptedEngine

KIMI = "@cf/moonshotai/kimi-k2.5"
KIMI_NEXT = "@cf/moonshotai/kimi-k2.6"
GPT_OSS = "@cf/openai/gpt-oss-120b"
LLAMA = "@cf/meta/llama-3.3-70b-instruct-fp8-fast"
SMOLLM = TEXT_MODEL
# What the catalogue says of each, so that too long a prompt is too long here as well.
SCRIPTED_CONTEXT_TOKENS = {KIMI: 256_000, KIMI_NEXT: 256_000, GPT_OSS: 128_000, LLAMA: 24_000}

_REQUESTS_KEPT = 1000
_LEDGER_SECONDS = 20.0
_CALL_SECONDS = 60.0


class ClientCell:
    """Made by `running_cell`; around a cell with real engines it has no scripted ones."""

    def __init__(self, up: Cell, engines: tuple[ScriptedEngine, ...] = ()) -> None:
        self.url = up.base_url
        self.key = up.key
        self.account = up.account
        self.state = Path(up.state)
        self._engines = engines
        self._forgotten = {engine.port: 0 for engine in engines}

    def requests(self) -> list[dict[str, Any]]:
        """What the scripted engines received since `forget`, in order for each engine.

        Headers have small letters; the body is read as JSON, and `text` is the body as it came.
        """
        found = []
        for engine in self._engines:
            state = engine.state()
            fresh = state.requests - self._forgotten[engine.port]
            assert fresh <= _REQUESTS_KEPT, "more than the engine remembers"
            entries = state.requests_log[len(state.requests_log) - fresh :]
            found += [
                {**entry, "body": _read(entry["body"]), "text": entry["body"]} for entry in entries
            ]
        return found

    def forget(self) -> None:
        """What came until now is not in `requests` any more."""
        for engine in self._engines:
            self._forgotten[engine.port] = engine.state().requests

    def get(self, path: str) -> Any:
        """The JSON of one of the gateway's pages, asked for with the key."""
        answer = self._ask(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def session(self, name: str, turns: int = 1) -> Any:
        """What the ledger says of a session, once it has this many turns."""
        path = f"/v1/usage/sessions/{urllib.parse.quote(name, safe='')}"

        def look() -> Any:
            answer = self._ask(path)
            found = answer.json() if answer.status_code == 200 else None
            return found if found and found["turn_count"] >= turns else None

        return until(look, _LEDGER_SECONDS)

    def count_rows(self, table: str) -> int:
        """How many rows one of the cell's tables has."""
        query = sql.SQL("select count(*) from {}").format(sql.Identifier(table))
        with psycopg.connect(EmbeddedPostgres(self.state / "postgres").dsn) as connection:
            row = connection.execute(query).fetchone()
        assert row is not None
        return int(row[0])

    def add_account(self, name: str, *options: str) -> str:
        """Create an account with what `penstock account set` takes; return a key of it."""
        run_json(self.state, "account", "create", name)
        run_json(self.state, "account", "set", name, *options)
        secret: str = run_json(self.state, "key", "create", "--account", name)["secret"]
        return secret

    def _ask(self, path: str) -> httpx.Response:
        headers = {"authorization": f"Bearer {self.key}"}
        return httpx.get(self.url + path, headers=headers, timeout=_CALL_SECONDS)


@contextlib.contextmanager
def running_cell(folder: Path, contexts: Mapping[str, int]) -> Iterator[ClientCell]:
    """Start `penstock up` with one scripted engine for each model of `contexts`.

    `contexts` has how many tokens each model takes.
    """
    with contextlib.ExitStack() as stack:
        engines = tuple(
            stack.enter_context(
                ScriptedEngine(model=model, max_model_len=tokens, log_limit=_REQUESTS_KEPT)
            )
            for model, tokens in contexts.items()
        )
        options = [word for engine in engines for word in ("--attach", engine.url)]
        up = stack.enter_context(running_up(folder, *options))
        yield ClientCell(up, engines)


def _read(body: str) -> Any:
    """A body that was too long for the engine's log is no JSON: as it stands."""
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError:
        return body
