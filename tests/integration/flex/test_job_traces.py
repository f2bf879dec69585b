"""The jobs that a keeper runs are traced as requests are, under the id of the job."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.integration.cells.flex_keeper import MODEL, FlexCell, short_folder
from tests.integration.cells.signals_worker import eventually
from tests.integration.cells.trace_collector import TraceCollector
from tests.unit.telemetry.read_spans import only_tree

from penstock.config import Config
from penstock.records.job import JobId, JobState
from penstock.store import Store
from penstock.telemetry.settings import TelemetrySettings
from penstock.testing import ScriptedEngine


@pytest.fixture
async def flex(store: Store, dsn: str, tmp_path: Path) -> AsyncIterator[FlexCell]:
    with short_folder() as signals:
        cell = FlexCell(store, dsn, tmp_path, signals)
        await cell.set_up()
        yield cell


@pytest.fixture
def engine() -> Iterator[ScriptedEngine]:
    with ScriptedEngine(slots=8, log_limit=100) as made:
        yield made


@pytest.fixture
def collector() -> Iterator[TraceCollector]:
    with TraceCollector() as made:
        yield made


def traced(config: Config, collector: TraceCollector, **settings: Any) -> Config:
    telemetry = TelemetrySettings(traces_url=collector.url, **settings)
    return msgspec.structs.replace(config, telemetry=telemetry)


def roots_of(collector: TraceCollector, job: JobId) -> int:
    return sum(each.attributes.get("penstock.job.id") == job for each in collector.spans())


async def test_a_job_is_a_tree_under_its_own_id(
    flex: FlexCell, engine: ScriptedEngine, collector: TraceCollector
) -> None:
    [job] = await flex.submit(1, {"tokens": 5})
    async with flex.keeper(traced(flex.config([engine]), collector, traces_share=1.0)):
        await flex.wait_for(JobState.SUCCEEDED, 1)
    # Ended in order, the keeper has posted what waited.
    root, [child] = only_tree(collector.spans())
    assert (root.service, root.name, root.kind) == ("penstock-keeper", "penstock.job", "CONSUMER")
    assert root.trace_id == job.replace("-", "")
    assert root.attributes["penstock.job.id"] == job
    assert root.attributes["penstock.account"] == flex.account
    assert (child.name, child.kind) == (f"chat {MODEL}", "CLIENT")
    assert child.attributes["gen_ai.usage.output_tokens"] == 5
    assert child.attributes["gen_ai.response.finish_reasons"] == ["stop"]
    last = engine.state().last_request
    assert last is not None
    assert last["headers"]["traceparent"] == f"00-{root.trace_id}-{child.span_id}-01"


async def test_each_run_of_a_job_that_fails_is_traced_without_a_share(
    flex: FlexCell, engine: ScriptedEngine, collector: TraceCollector
) -> None:
    [good] = await flex.submit(1, {"tokens": 5})
    async with flex.keeper(traced(flex.config([engine]), collector, traces_share=0.0)):
        await flex.wait_for(JobState.SUCCEEDED, 1)
        [bad] = await flex.submit(1, {"cut_before_head": True})
        await eventually(lambda: roots_of(collector, bad) >= 1)
    spans = [each for each in collector.spans() if each.trace_id == bad.replace("-", "")]
    root = next(each for each in spans if not each.parent_id)
    children = [each for each in spans if each.parent_id == root.span_id]
    assert root.is_error
    assert root.attributes["error.type"] == "replica_unreachable"
    assert [each.attributes["error.type"] for each in children] == ["replica_unreachable"]
    assert roots_of(collector, good) == 0


async def test_a_keeper_counts_the_traces_that_nobody_took(
    flex: FlexCell, engine: ScriptedEngine, collector: TraceCollector
) -> None:
    collector.status = 503
    await flex.submit(3)
    async with flex.keeper(traced(flex.config([engine]), collector, traces_share=1.0)) as station:
        await flex.wait_for(JobState.SUCCEEDED, 3)
        await eventually(lambda: station.traces_dropped == 3)
