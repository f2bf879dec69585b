"""`/v1/jobs`: who sees which, page by page, in every state; and cancelling."""

import time
from collections.abc import Iterator

import httpx
import pytest
from tests.integration.cells.gateway_answers import check_openai
from tests.integration.cells.gateway_cell import CHAT, NATIVE, Cell, CellFactory, chat_body
from tests.integration.cells.gateway_process import eventually
from tests.integration.cells.job_runner import JobRunner

from penstock.clock import new_id
from penstock.queue import Claim, Queue, QueueSettings
from penstock.records.job import JobFailure
from penstock.records.model import ModelId
from penstock.store import Store

_V1 = "/v1/chat/completions"
_ASYNC = {"prefer": "respond-async"}


@pytest.fixture(scope="module")
def flex(cells: CellFactory) -> Iterator[tuple[Cell, JobRunner]]:
    with cells.open() as cell:
        engine = cell.set_up()
        with JobRunner(cell, engine.url) as runner:
            yield cell, runner


@pytest.fixture
def runner(flex: tuple[Cell, JobRunner]) -> Iterator[JobRunner]:
    yield flex[1]
    flex[1].go_on()


@pytest.fixture
def cell(flex: tuple[Cell, JobRunner]) -> Cell:
    return flex[0]


def _queue(cell: Cell, model: str = CHAT, key: str = "") -> str:
    headers = {**_ASYNC, **({"authorization": f"Bearer {key}"} if key else {})}
    answer = cell.post(_V1, chat_body(model), headers=headers)
    assert answer.status_code == 202, answer.text
    job: str = answer.json()["id"]
    return job


def _delete(cell: Cell, job: str) -> httpx.Response:
    return cell.client.delete(f"{cell.gateway.url}/v1/jobs/{job}", headers=cell.authorization())


def _as(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def test_jobs_are_listed_newest_first_and_page_by_page(cell: Cell, runner: JobRunner) -> None:
    runner.hold()
    made = [_queue(cell, model) for model in (CHAT, CHAT, NATIVE, CHAT)]
    page = cell.get("/v1/jobs?limit=3").json()
    assert (page["object"], page["has_more"]) == ("list", True)
    assert [job["id"] for job in page["data"]] == made[:0:-1]
    assert page["next"] == made[1]
    rest = cell.get(f"/v1/jobs?limit=3&after={page['next']}").json()
    assert rest["data"][0]["id"] == made[0]
    of_model = cell.get(f"/v1/jobs?model={NATIVE}&state=queued").json()["data"]
    assert made[2] in [job["id"] for job in of_model]
    assert {job["model"] for job in of_model} == {NATIVE}
    assert "result" not in page["data"][0]


def test_position_counts_from_one_within_the_account(cell: Cell, runner: JobRunner) -> None:
    eventually(lambda: not cell.get("/v1/jobs?state=queued").json()["data"])
    runner.hold()
    first, second = _queue(cell), _queue(cell)
    assert cell.get(f"/v1/jobs/{first}").json()["position"] == 1
    found = cell.get(f"/v1/jobs/{second}").json()
    assert found["position"] == 2
    assert "eta_seconds" in found


def test_jobs_of_a_batch_are_found_by_it(cell: Cell) -> None:
    answer = cell.run_model(f"{CHAT}?queueRequest=true", {"requests": [{"prompt": "x"}] * 3})
    batch = answer.json()["result"]["request_id"]
    jobs = cell.get(f"/v1/jobs?batch={batch}").json()["data"]
    assert {job["batch"] for job in jobs} == {batch}
    assert len(jobs) == 3


def test_a_waiting_job_is_cancelled_at_once(cell: Cell, runner: JobRunner) -> None:
    runner.hold()
    job = _queue(cell)
    answer = _delete(cell, job)
    assert answer.status_code == 200
    assert answer.json()["state"] == "cancelled"
    assert answer.json()["error"]["code"] == "job_cancelled"
    # Once more changes nothing.
    assert _delete(cell, job).json()["state"] == "cancelled"
    runner.go_on()
    time.sleep(0.2)
    assert job not in runner.ran


def test_attempts_and_the_last_error_are_the_owner_s_to_see(cell: Cell, runner: JobRunner) -> None:
    runner.hold()
    job = _queue(cell)
    seen = cell.get(f"/v1/jobs/{job}").json()
    assert (seen["attempts"], seen["last_error"]) == (0, None)

    async def fail_once(store: Store) -> None:
        queue = Queue(QueueSettings())
        async with store.transaction() as transaction:
            (claimed,) = await queue.claim(transaction, Claim(ModelId(CHAT), 1, "test", 60.0))
            failure = JobFailure("engine_lost", "The engine went away.")
            await queue.retry(transaction, claimed.id, claimed.epoch, failure)

    cell.run(fail_once)
    seen = cell.get(f"/v1/jobs/{job}").json()
    assert (seen["state"], seen["attempts"], seen["error"]) == ("queued", 1, None)
    assert seen["last_error"] == {"code": "engine_lost", "message": "The engine went away."}
    (listed,) = [each for each in cell.get("/v1/jobs").json()["data"] if each["id"] == job]
    assert listed["last_error"] == seen["last_error"]
    _, _, key = cell.add_account("curious")
    assert cell.get(f"/v1/jobs/{job}", headers=_as(key)).status_code == 404
    assert _delete(cell, job).json()["last_error"] == seen["last_error"]


def test_a_job_that_has_ended_stays_as_it_is(cell: Cell) -> None:
    job = _queue(cell)
    eventually(lambda: cell.get(f"/v1/jobs/{job}").json()["state"] == "succeeded")
    assert _delete(cell, job).json()["state"] == "succeeded"


def test_accounts_see_their_own_and_operators_all(cell: Cell, runner: JobRunner) -> None:
    runner.hold()
    other, _, key = cell.add_account("other")
    job = _queue(cell, key=key)
    check_openai(cell.get(f"/v1/jobs/{job}"), 404, "not_found")
    check_openai(_delete(cell, job), 404, "not_found")
    assert cell.get(f"/v1/jobs/{job}", headers=_as(key)).json()["state"] == "queued"
    seen = {each["account"] for each in cell.get("/v1/jobs").json()["data"]}
    assert seen == {cell.account}
    check_openai(cell.get(f"/v1/jobs?account={other}"), 403, "forbidden")
    operator = _as(cell.operator_key)
    assert cell.get(f"/v1/jobs/{job}", headers=operator).json()["account"] == other
    listed = cell.get(f"/v1/jobs?account={other}", headers=operator).json()["data"]
    assert [each["id"] for each in listed] == [job]
    seen = {each["account"] for each in cell.get("/v1/jobs", headers=operator).json()["data"]}
    assert seen == {cell.account, other}


def test_nonsense_is_refused(cell: Cell) -> None:
    check_openai(cell.get(f"/v1/jobs/{new_id()}"), 404, "not_found")
    check_openai(cell.get("/v1/jobs/nonsense"), 404, "not_found")
    check_openai(_delete(cell, "nonsense"), 404, "not_found")
    for query in ("state=done", "after=x", "limit=0", "what=1", "limit=1&limit=2"):
        check_openai(cell.get(f"/v1/jobs?{query}"), 400, "invalid_request")
    check_openai(cell.get("/v1/jobs", headers=_as("psk_nobody")), 401, "unauthenticated")
