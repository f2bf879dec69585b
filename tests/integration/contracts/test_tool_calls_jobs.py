"""A keeper judges answers of jobs by the version of the contract that they were submitted under."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.integration.cells.flex_keeper import FlexCell, short_folder
from tests.integration.contracts.contract_cell import apply_texts, contract

from penstock.contracts.version_terms import VersionTerms
from penstock.errors import Conflict
from penstock.records.job import Job, JobState
from penstock.store import Store
from penstock.testing import ScriptedEngine

_ONLY = 'tools = {{ default = "deny", allow = ["{}"], on_forbidden = "{}" }}'
_CALL = {"calls": [["bash", '{"path": "only-in-the-arguments"}']]}
_CHARGED = "select sum(charge_nanousd) from usage_attempts where outcome = 'ok' and error = %s"


@pytest.fixture
async def flex(store: Store, dsn: str, tmp_path: Path) -> AsyncIterator[FlexCell]:
    with short_folder() as signals:
        cell = FlexCell(store, dsn, tmp_path, signals)
        await cell.set_up()
        await apply_texts(store, contract("only", _ONLY.format("read_*", "error")))
        # By now `bash` is allowed; jobs of the first version do not know.
        await apply_texts(
            store,
            contract("only", _ONLY.format("bash", "error")),
            contract("note", _ONLY.format("read_*", "note")),
            contract("labels"),
        )
        yield cell


@pytest.fixture
def engine() -> Iterator[ScriptedEngine]:
    with ScriptedEngine(slots=8, log_limit=100) as made:
        yield made


async def run(flex: FlexCell, engine: ScriptedEngine, label: str, state: JobState) -> Job:
    (id,) = await flex.submit(1, _CALL, label)
    async with flex.keeper(flex.config([engine])):
        await flex.wait_for(state, 1)
    return await flex.job(id)


async def test_a_forbidden_call_fails_the_job_and_is_charged_once(
    flex: FlexCell, engine: ScriptedEngine
) -> None:
    job = await run(flex, engine, "only@1", JobState.FAILED)
    assert job.failure is not None
    assert (job.failure.code, job.failure.status) == ("tool_call_forbidden", 403)
    assert "only@1" in job.failure.message
    assert (job.result, job.result_object) == (b"", "")
    assert engine.state().requests == 1
    assert job.charge_nanousd > 0
    assert await flex.number(_CHARGED, "tool_call_forbidden") == job.charge_nanousd
    hours = await flex.number("select sum(charge_nanousd) from usage_hours")
    assert hours == job.charge_nanousd


@pytest.mark.parametrize("label", ["only@2", "labels@1", ""])
async def test_an_allowed_call_is_the_result_of_the_job(
    flex: FlexCell, engine: ScriptedEngine, label: str
) -> None:
    job = await run(flex, engine, label, JobState.SUCCEEDED)
    assert b"only-in-the-arguments" in await flex.result_of(job)


async def test_a_note_takes_the_place_of_the_call(flex: FlexCell, engine: ScriptedEngine) -> None:
    job = await run(flex, engine, "note@1", JobState.SUCCEEDED)
    result = await flex.result_of(job)
    assert b"This call was not made" in result
    assert b"only-in-the-arguments" not in result


async def test_a_job_whose_contract_is_lost_is_never_run(
    flex: FlexCell, engine: ScriptedEngine
) -> None:
    job = await run(flex, engine, "only@9", JobState.FAILED)
    assert job.failure is not None
    assert job.failure.code == "conflict"
    assert "only@9" in job.failure.message
    assert engine.state().requests == 0
    assert job.charge_nanousd == 0


async def test_terms_are_read_once_for_each_version(flex: FlexCell, store: Store) -> None:
    found = VersionTerms(store)
    first, second = await found.find("only@1"), await found.find("only@2")
    assert first is not None
    assert second is not None
    assert (first.allows("bash"), second.allows("bash")) == (False, True)
    assert await found.find("only@1") is first
    assert await found.find("labels@1") is None
    with pytest.raises(Conflict, match="only@7"):
        await found.find("only@7")
