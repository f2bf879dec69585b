"""Every query of rules and dashboards, asked of a real Prometheus.

It collects from a real gateway and keeper, with control beside them, in which much happens. Only
conditions of alerts stay empty, while their trouble is away.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.alert_files import ROOT, Query, alerts, panel_queries, rule_queries
from tests.chaos.flex_process import PenstockProcess
from tests.integration.cells.control_process import control_process
from tests.integration.cells.flex_keeper import short_folder
from tests.integration.cells.gateway_cell import (
    ABSENT,
    CHAT,
    CHEAP,
    PAIR,
    PLAIN,
    Cell,
    CellFactory,
    chat_body,
    new_body,
)
from tests.integration.cells.gateway_process import (
    CHILD_ENVIRONMENT,
    Settings,
    eventually,
    free_port,
)
from tests.integration.cells.limited_accounts import ask, set_limit
from tests.integration.cells.prometheus_process import (
    PrometheusProcess,
    needs_prometheus,
    scaled_query,
)
from tests.integration.cells.runtime_dsn import runtime_dsn
from tests.integration.contracts.contract_cell import REFRESH, contract, in_force

from penstock.clock import new_id
from penstock.events import EndpointBook, NewEndpoint, Shape, WebhookSettings
from penstock.fleet.roster import RosterTable
from penstock.queue import outbox
from penstock.records.account import AccountId
from penstock.records.limit import Measure, Period
from penstock.records.model import ModelId
from penstock.records.replica import Replica, ReplicaId, ReplicaState
from penstock.store import Store

pytestmark = [needs_prometheus, pytest.mark.timeout(240)]

# Half an hour is 15 seconds: a share of seven days needs one half hour that is over.
_FASTER = 120
# A week is 20: what is usual is of the same hour a week before.
_WEEKS_FASTER = 7 * 86_400 // 20
# Stands where the keeper looks for NVIDIA's library.
_LIBRARY_OF_GPUS = f"""
import sys
sys.path.append({str(ROOT)!r})
from tests.unit.fleet.nvml_double import nvml
sys.modules[__name__] = nvml(has_driver=True)
"""
_WITHIN_SECONDS = 60.0
_V1 = "/v1/chat/completions"
_INSTRUCTIONS = "You review code, briefly, and cite the lines that you speak of. " * 20
_WORKFLOW = {"x-penstock-workflow": "review"}
# A session would stay with the replica that answers.
_TURN = {**_WORKFLOW, "x-session-id": "one"}


@pytest.fixture(scope="module")
def prometheus(
    cells: CellFactory, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PrometheusProcess]:
    with short_folder() as folder, _cell(cells, folder) as (cell, keeper_port):
        targets = {"penstock-gateway": cell.gateway.metrics_port, "penstock-keeper": keeper_port}
        place = tmp_path_factory.mktemp("prometheus")
        with PrometheusProcess(
            place, targets, faster=_FASTER, weeks_faster=_WEEKS_FASTER
        ) as process:
            eventually(lambda: process.query("penstock_workers") != [], 20)
            with _happening(cell):
                yield process


def test_every_query_has_a_result(prometheus: PrometheusProcess) -> None:
    # Conditions of alerts are empty while all is well; what they read is in the next test.
    conditions = [query for query in rule_queries() if query.place in alerts()]
    waited = [*panel_queries(), *(q for q in rule_queries() if q not in conditions)]
    for query in conditions:
        prometheus.query(scaled_query(query.expr, _FASTER, _WEEKS_FASTER))
    assert [query.place for query in _empty_within(prometheus, waited)] == []
    assert prometheus.firing() == {}


def test_every_metric_has_been_collected(prometheus: PrometheusProcess) -> None:
    names = {n for q in (*rule_queries(), *panel_queries()) for n in q.series() | q.recorded()}
    ours = [Query(name, name) for name in sorted(names)]
    assert [query.place for query in _empty_within(prometheus, ours)] == []


def _empty_within(prometheus: PrometheusProcess, queries: list[Query]) -> list[Query]:
    """Return the queries that never had a result."""
    deadline = time.monotonic() + _WITHIN_SECONDS
    left = queries
    while left and time.monotonic() < deadline:
        left = [
            each
            for each in left
            if not prometheus.query(scaled_query(each.expr, _FASTER, _WEEKS_FASTER))
        ]
        time.sleep(0.2)
    return left


@contextmanager
def _cell(cells: CellFactory, folder: Path) -> Iterator[tuple[Cell, int]]:
    """A gateway, and a keeper and control beside it; and the keeper's port of metrics."""
    shared: Settings = {
        **REFRESH,
        "signals.folder": str(folder / "signals"),
        "store.objects_url": f"file:{folder / 'objects'}",
        "admission.limits_refresh_seconds": 0.1,
        "metering.drain_seconds": 0.1,
    }
    port = free_port()
    with ExitStack() as stack:
        cell = stack.enter_context(cells.open(shared))
        engine = cell.set_up()
        beside: Settings = {**shared, "store.cell_key_file": cell.key_file}
        attached = {"provider": "attach", "has_priority": True}
        replicas = [
            {"model": CHAT, "url": engine.url, "slots_live": 2, **attached},
            {"model": PAIR, "url": cell.add_engine().url, **attached},
            # Jobs have another model: the live requests leave them no room at the first.
            {"model": CHEAP, "url": cell.add_engine().url, "slots_live": 8, **attached},
        ]
        own = {
            "store.dsn": runtime_dsn(cell.dsn),
            "catalogue.folder": str(cell.journal.parent / "catalogue"),
            "metering.journal_folder": str(folder / "journal"),
            "fleet.replicas": replicas,
            "fleet.state_folder": str(folder / "keeper"),
            "fleet.metrics_port": port,
        }
        allowed = {"webhooks.allowed_networks": ["127.0.0.0/8"]}
        stack.enter_context(control_process(cell.dsn, folder, {**beside, **allowed}))
        keeper = PenstockProcess(folder, {**beside, **own}, "keeper")
        library = folder / "library"
        library.mkdir()
        (library / "pynvml.py").write_text(_LIBRARY_OF_GPUS)
        keeper.prefix = ("env", f"PYTHONPATH={library}:{CHILD_ENVIRONMENT['PYTHONPATH']}")
        stack.callback(keeper.stop)
        keeper.start()
        for model in (CHAT, PAIR, CHEAP):
            cell.wait_for_replicas(model, 1)
        in_force(cell, contract("review", "output = { tokens_max = 5 }"))
        yield cell, port


@contextmanager
def _happening(cell: Cell) -> Iterator[None]:
    """What the dashboards ask about, again and again, until the block ends."""
    refused = set_limit(cell, Measure.REQUESTS, Period.DAY, 0)
    warned = set_limit(cell, Measure.REQUESTS, Period.MONTH, 1, is_hard=False)
    cell.run(lambda store: _starting(store, ABSENT))
    cell.run(lambda store: _webhook(store, AccountId(cell.account)))
    _fail_over(cell)
    stop = threading.Event()

    def go_on() -> None:
        while not stop.wait(0.05):
            ask(cell, refused)
            ask(cell, warned)
            cell.post(_V1, chat_body(ABSENT))
            cell.post(_V1, chat_body(), headers={"x-stainless-retry-count": "1"})

    def crowd() -> None:
        # More at once than there are slots.
        while not stop.wait(0.05):
            body = chat_body(CHAT, {"stall_before_first": 0.2}, stream=True, max_tokens=20)
            body["messages"].insert(0, {"role": "system", "content": _INSTRUCTIONS})
            cell.post(_V1, body, headers=_TURN)

    def submit() -> None:
        while not stop.wait(0.5):
            body = chat_body(CHEAP, service_tier="flex")
            cell.post(_V1, body, headers={"prefer": "respond-async"})

    threads = [threading.Thread(target=each) for each in (go_on, submit, *[crowd] * 4)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _fail_over(cell: Cell) -> None:
    """A replica that nobody answers for: requests go to the other one, and one model has none."""
    dead = f"http://127.0.0.1:{free_port()}"
    replicas = [cell.enroll(dead, model) for model in (PAIR, PLAIN)]
    cell.wait_for_replicas(PAIR, 2)
    cell.post(_V1, new_body(PLAIN))

    def is_retried() -> bool:
        cell.post(_V1, new_body(PAIR), headers=_WORKFLOW)
        return cell.gateway.metric("penstock_recovered_total") > 0

    eventually(is_retried, 30)
    for replica in replicas:
        cell.withdraw(replica)


async def _starting(store: Store, model: str) -> None:
    """A replica that does not become ready, of a model that has no other."""
    replica = Replica(
        id=ReplicaId(new_id()),
        model=ModelId(model),
        url=f"http://127.0.0.1:{free_port()}",
        state=ReplicaState.STARTING,
        served_name="any",
        slots_live=1,
    )
    await RosterTable(store).enroll(replica, keeper="test")


async def _webhook(store: Store, account: AccountId) -> None:
    """An event that nobody takes."""
    url = f"http://127.0.0.1:{free_port()}"
    settings = WebhookSettings(allowed_networks=("127.0.0.0/8",))
    wanted = NewEndpoint(account, Shape.OPENAI, "mine", url, ("batch.completed",))
    await EndpointBook(store, settings).create(wanted)
    async with store.transaction() as transaction:
        event = outbox.NewEvent(account, "batch.completed", {"id": "batch_1"})
        await outbox.add(transaction, [event])
