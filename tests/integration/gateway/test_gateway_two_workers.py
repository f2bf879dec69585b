"""Two workers behind one port, and one of them has all the load: the other sees it at once.

Which worker has a connection is looked up in /proc, so that a test can say who is to be asked.
"""

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from tests.integration.cells.gateway_cell import PAIR, Cell, CellFactory, new_body
from tests.integration.cells.gateway_process import eventually
from tests.integration.cells.raw_client import RawClient, post_bytes

from penstock.policy import AccountBook
from penstock.records.account import Affinity

_PATH = "/v1/chat/completions"
_STREAMS = 6
_ASKED_TIMES = 4
# Each replica is the loaded one so many times.
_ROUNDS_EACH = 2
_ROUNDS_MAX = 40
_CONNECTIONS_MAX = 200
_ENDLESS: dict[str, object] = {"tokens": 3000, "interval": 0.02}


@pytest.fixture
def cell(cells: CellFactory) -> Iterator[Cell]:
    # Not tmp_path: its paths may be too long for a Unix socket.
    folder = Path(tempfile.mkdtemp(prefix="penstock-"))
    # Messages go round once a second: what is seen sooner was seen in the shared table.
    signals = {"signals.interval_seconds": 1, "signals.silence_seconds": 5}
    settings = {"ingress.workers": 2, "signals.folder": str(folder), **signals}
    try:
        with cells.open(settings) as opened:
            yield opened
    finally:
        shutil.rmtree(folder)


def test_a_worker_avoids_at_once_the_replica_that_the_other_has_loaded(cell: Cell) -> None:
    cell.set_up(PAIR)
    cell.enroll(cell.add_engine().url, PAIR)
    cell.wait_for_replicas(PAIR, 2)
    eventually(lambda: cell.gateway.metric("penstock_peers_heard") == 1, 30)
    loading, asked = cell.gateway.worker_pids()
    strict = _strict_key(cell)
    loaded: Counter[str] = Counter()
    with _connection(cell, asked) as other:
        for number in range(_ROUNDS_MAX):
            with ExitStack() as stack:
                streams = [stack.enter_context(_connection(cell, loading)) for _ in range(_STREAMS)]
                replica = _load_one(streams, strict, f"round-{number}")
                served = [_ask(other, cell.key) for _ in range(_ASKED_TIMES)]
            loaded[replica] += 1
            assert replica not in served, (loaded, served)
            cell.wait_until_idle()
            if len(loaded) == 2 and min(loaded.values()) >= _ROUNDS_EACH:
                break
    # The one that was avoided was not always the same.
    assert len(loaded) == 2


def _load_one(streams: list[RawClient], key: str, session: str) -> str:
    """Keep one replica busy with a session's requests, one for each connection; its id."""
    first, *others = (_begin(client, key, session) for client in streams)
    assert set(others) == {first}
    return first


def _begin(client: RawClient, key: str, session: str) -> str:
    """A stream that would not end by itself; the replica that it comes from."""
    body = new_body(PAIR, _ENDLESS, stream=True)
    client.send(post_bytes(_PATH, body, key, headers={"x-session-id": session}))
    _, status, headers = client.read_head()
    assert status == 200
    client.read_until(b"data: ")
    return headers["x-penstock-replica"]


def _ask(client: RawClient, key: str) -> str:
    """Which replica answers a request that none of them has seen the like of."""
    client.send(post_bytes(_PATH, new_body(PAIR), key))
    answer = client.read_answer()
    assert answer.status == 200, answer.body
    return answer.headers["x-penstock-replica"]


def _strict_key(cell: Cell) -> str:
    """A key of an account whose sessions stay where they are, whatever that costs."""
    account, _, key = cell.add_account("strict")
    cell.run(lambda store: AccountBook(store).set_affinity(account, Affinity.STRICT))
    return key


def _connection(cell: Cell, pid: int) -> RawClient:
    """A connection that this worker has taken, as chance would have it sooner or later."""
    for _ in range(_CONNECTIONS_MAX):
        client = RawClient(cell.gateway.port)
        if _accepted_by(cell, client) == pid:
            return client
        client.close()
    raise AssertionError(f"worker {pid} has taken none of {_CONNECTIONS_MAX} connections")


def _accepted_by(cell: Cell, client: RawClient) -> int | None:
    eventually(lambda: _worker_of(cell, client) is not None)
    return _worker_of(cell, client)


def _worker_of(cell: Cell, client: RawClient) -> int | None:
    """The worker that holds the socket of a connection; None while nobody has accepted it."""
    ends = f"0100007F:{cell.gateway.port:04X}", f"0100007F:{client.socket.getsockname()[1]:04X}"
    for line in Path("/proc/net/tcp").read_text().splitlines():
        words = line.split()
        if (words[1], words[2]) == ends:
            socket = f"socket:[{words[9]}]"
            pids = cell.gateway.worker_pids()
            return next((pid for pid in pids if socket in _open_files(pid)), None)
    return None


def _open_files(pid: int) -> set[str]:
    found = set()
    for path in Path(f"/proc/{pid}/fd").iterdir():
        # It may be closed while we look.
        with suppress(FileNotFoundError):
            found.add(str(path.readlink()))
    return found
