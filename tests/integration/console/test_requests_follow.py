"""`penstock requests --follow` prints each request once, however many end in a second."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest
from tests.integration.cells.usage_rows import attempt, new_account, write

from penstock.clock import SystemClock
from penstock.config import environment_for
from penstock.errors import InvalidRequest
from penstock.store import Store
from penstock.wire.resources.request_list import read_request_query

# More than two pages, in one transaction of the drain: all have the same time.
_AT_ONCE = 2500


async def test_a_busy_cell_is_followed(store: Store, dsn: str, tmp_path: Path) -> None:
    account, now = new_account(), SystemClock().now()
    with _following(dsn, tmp_path) as lines:
        # Written once the command has begun to look.
        await write(store, [attempt(account, asked_at=now, session="first")])
        assert json.loads(lines.readline())["session"] == "first"
        await write(
            store,
            [attempt(account, asked_at=now, session=f"s-{number}") for number in range(_AT_ONCE)],
        )
        many = [json.loads(lines.readline()) for _ in range(_AT_ONCE)]
        await write(store, [attempt(account, asked_at=now, session="last")])
        last = json.loads(lines.readline())
    assert {row["session"] for row in many} == {f"s-{number}" for number in range(_AT_ONCE)}
    assert last["session"] == "last"


@contextmanager
def _following(dsn: str, folder: Path) -> Iterator[IO[bytes]]:
    """Run the command; yields what it prints."""
    arguments = ["requests", "--follow", "--json", "--since", "1m"]
    with subprocess.Popen(
        [sys.executable, "-m", "penstock", *arguments],
        env=environment_for({"store.dsn": dsn}),
        stdout=subprocess.PIPE,
        cwd=folder,
    ) as running:
        try:
            assert running.stdout is not None
            yield running.stdout
            assert running.poll() is None
        finally:
            running.kill()


@pytest.mark.parametrize("after", ["", "x.1", "0" * 32, f"{'0' * 32}.0", f"{'0' * 32}.9999999999"])
def test_only_an_attempt_can_be_gone_on_from(after: str) -> None:
    given: list[tuple[str, Any]] = [("order", "drained"), ("after", after)]
    with pytest.raises(InvalidRequest) as refused:
        read_request_query(given, SystemClock().now())
    assert refused.value.param == "after"
