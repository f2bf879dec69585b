"""Workers AI's asynchronous API: submit, poll with and without the flag, ends, tasks."""

import time
from collections.abc import Iterator
from typing import Any

import cloudflare
import pytest
from tests.integration.cells.gateway_answers import check_envelope
from tests.integration.cells.gateway_cell import CHAT, NATIVE, PLAIN, Cell, CellFactory, prompt
from tests.integration.cells.gateway_process import eventually
from tests.integration.cells.job_runner import JobRunner

from penstock.clock import new_id

_QUEUE = f"run/{CHAT}?queueRequest=true"
_TASK = {"cf-aig-async": "true"}


@pytest.fixture(scope="module")
def flex(cells: CellFactory) -> Iterator[tuple[Cell, JobRunner]]:
    settings = {"ingress.queued_requests_max": 60, "ingress.queued_bytes_max": 200_000}
    with cells.open(settings) as cell:
        # No replica: what is queued needs none to be ready.
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


def _submit(cell: Cell, path: str, body: dict[str, Any], **headers: str) -> str:
    answer = cell.post(cell.path(path), body, headers=headers)
    assert answer.status_code == 200, answer.text
    envelope = answer.json()
    assert (envelope["success"], envelope["errors"], envelope["messages"]) == (True, [], [])
    result = envelope["result"]
    assert result.keys() == {"status", "request_id", "model"}
    assert result["status"] == "queued"
    return str(result["request_id"])


def _poll(cell: Cell, request_id: str, path: str = f"run/{CHAT}") -> dict[str, Any]:
    answer = cell.post(cell.path(path), {"request_id": request_id})
    assert answer.status_code == 200, answer.text
    result: dict[str, Any] = answer.json()["result"]
    return result


def _final(cell: Cell, request_id: str) -> dict[str, Any]:
    eventually(lambda: "responses" in _poll(cell, request_id))
    result = _poll(cell, request_id)
    assert result.keys() == {"responses", "usage"}, "no status at the end"
    return result


@pytest.mark.parametrize("flag", ["?queueRequest=true", ""])
def test_submit_and_poll_with_and_without_the_flag(
    cell: Cell, runner: JobRunner, flag: str
) -> None:
    runner.hold()
    requests = [
        {"prompt": "a", "external_reference": "first"},
        {"messages": prompt({"text": "b"}), "external_reference": "second"},
        {"prompt": "c"},
    ]
    request_id = _submit(cell, f"run/{CHAT}{flag}", {"requests": requests})
    pending = _poll(cell, request_id, f"run/{CHAT}{flag}")
    assert pending == {"status": "queued", "request_id": request_id}
    runner.go_on()
    result = _final(cell, request_id)
    items = sorted(result["responses"], key=lambda item: item["id"])
    assert [item["id"] for item in items] == [0, 1, 2]
    assert [item["external_reference"] for item in items] == ["first", "second", None]
    assert all(item["success"] for item in items)
    assert items[1]["result"]["choices"][0]["message"]["content"] == "b"
    usage = result["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] > 0
    told = [item["result"]["usage"]["completion_tokens"] for item in items]
    assert usage["completion_tokens"] == sum(told)


@pytest.mark.parametrize(
    ("path", "options"),
    [(_QUEUE, {}), (f"run/{CHAT}", {"options": {"queueRequest": True}})],
)
def test_a_plain_input_is_queued_by_itself(cell: Cell, path: str, options: dict[str, Any]) -> None:
    request_id = _submit(cell, path, {"prompt": "x", "stream": True, **options})
    (item,) = _final(cell, request_id)["responses"]
    assert item["result"]["choices"][0]["message"]["content"]


def test_a_model_named_in_the_body_is_queued_too(cell: Cell) -> None:
    body = {"model": CHAT, "input": {"requests": [{"prompt": "x"}]}}
    request_id = _submit(cell, "run?queueRequest=true", body)
    assert len(_final(cell, request_id)["responses"]) == 1


def test_native_answers_are_native(cell: Cell) -> None:
    plain = {"messages": prompt({"text": "42"})}
    asked = [plain, {**plain, "response_format": {"type": "json_object"}}]
    request_id = _submit(cell, f"run/{NATIVE}?queueRequest=true", {"requests": asked})
    items = _final(cell, request_id)["responses"]
    assert [item["result"]["response"] for item in items] == ["42", 42]


def test_a_failed_item_does_not_fail_the_others(cell: Cell) -> None:
    bad = {"messages": prompt({"status": 500}), "external_reference": "bad"}
    request_id = _submit(cell, _QUEUE, {"requests": [bad, {"prompt": "x"}]})
    failed, served = _final(cell, request_id)["responses"]
    assert served["success"]
    assert failed.keys() == {"id", "success", "external_reference", "error"}
    assert (failed["success"], failed["external_reference"]) == (False, "bad")
    error = failed["error"]
    assert (error["internalCode"], error["httpCode"]) == (5001, 500)
    assert error["message"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"messages": []}, "messages"),
        ({}, "prompt"),
        ({"prompt": "x", "lora": "a"}, "LoRA"),
        ({"prompt": "x", "n": 0}, "n"),
        ({"prompt": "x", "external_reference": 3}, "external_reference"),
    ],
)
def test_a_wrong_item_fails_the_submission_by_its_place(
    cell: Cell, wrong: dict[str, Any], said: str
) -> None:
    before = len(cell.get("/v1/jobs?limit=500").json()["data"])
    answer = cell.post(cell.path(_QUEUE), {"requests": [{"prompt": "x"}, wrong]})
    message = check_envelope(answer, 400, 5006)
    assert message.startswith("requests[1]: ")
    assert said in message
    assert len(cell.get("/v1/jobs?limit=500").json()["data"]) == before


def test_unknown_and_foreign_ids_are_not_found(cell: Cell, runner: JobRunner) -> None:
    runner.hold()
    own = _submit(cell, _QUEUE, {"prompt": "x"})
    other, _, key = cell.add_account("other")
    path = f"/client/v4/accounts/{other}/ai/run/{CHAT}"
    headers = {"authorization": f"Bearer {key}"}
    check_envelope(cell.post(path, {"request_id": own}, headers=headers), 404, 7000)
    for unknown in (new_id(), "x", "req-1", ""):
        answer = cell.run_model(f"{CHAT}?queueRequest=true", {"request_id": unknown})
        check_envelope(answer, 404, 7000)
    check_envelope(cell.run_model(CHAT, {"request_id": new_id()}), 404, 7000)


def test_bounds_are_told(cell: Cell) -> None:
    many = {"requests": [{"prompt": "x"}] * 61}
    assert "60 are allowed" in check_envelope(cell.post(cell.path(_QUEUE), many), 400, 5006)
    large = {"prompt": "x" * 200_001}
    check_envelope(cell.post(cell.path(_QUEUE), large), 413, 3006)
    check_envelope(cell.post(cell.path(_QUEUE), {"requests": []}), 400, 5006)


def test_a_model_without_the_queue_is_refused(cell: Cell) -> None:
    answer = cell.run_model(f"{PLAIN}?queueRequest=true", {"prompt": "x"})
    assert "async_queue" in check_envelope(answer, 400, 8001)


def test_chat_names_the_other_doors(cell: Cell) -> None:
    body = {"model": CHAT, "messages": prompt(), "options": {"queueRequest": True}}
    message = check_envelope(cell.post(cell.path("v1/chat/completions"), body), 400, 5006)
    assert "service_tier" in message
    assert "Prefer" in message


def test_the_same_submission_twice_is_one(cell: Cell, runner: JobRunner) -> None:
    key = {"idempotency-key": f"twice-{time.monotonic()}"}
    body = {"requests": [{"prompt": "a"}, {"prompt": "b"}]}
    first, second = (_submit(cell, _QUEUE, body, **key) for _ in range(2))
    assert first == second
    assert len(_final(cell, first)["responses"]) == 2
    jobs = {job["id"] for job in cell.get(f"/v1/jobs?batch={first}").json()["data"]}
    assert len(jobs) == 2
    assert sum(ran in jobs for ran in runner.ran) == 2


def test_a_running_submission_says_so(cell: Cell, runner: JobRunner) -> None:
    slow = {"messages": prompt({"tokens": 20, "interval": 0.05})}
    request_id = _submit(cell, _QUEUE, {"requests": [slow]})
    eventually(lambda: _poll(cell, request_id).get("status") == "running")
    assert len(_final(cell, request_id)["responses"]) == 1
    del runner


def test_cloudflares_sdk_queues_and_polls(cell: Cell) -> None:
    base_url = f"{cell.gateway.url}/client/v4"
    with cloudflare.Cloudflare(api_token=cell.key, base_url=base_url, max_retries=0) as client:
        queued: Any = client.ai.run(
            CHAT,
            account_id=cell.account,
            extra_query={"queueRequest": "true"},
            extra_body={"requests": [{"prompt": "x", "external_reference": "r"}]},
        )
        assert queued["status"] == "queued"

        def poll() -> Any:
            return client.ai.run(
                CHAT,
                account_id=cell.account,
                extra_query={"queueRequest": "true"},
                extra_body={"request_id": queued["request_id"]},
            )

        eventually(lambda: "responses" in poll())
        (item,) = poll()["responses"]
        assert item["external_reference"] == "r"
        assert item["result"]["choices"][0]["message"]["content"]
        with pytest.raises(cloudflare.NotFoundError) as unknown:
            client.ai.run(CHAT, account_id=cell.account, extra_body={"request_id": new_id()})
        assert unknown.value.errors[0].code == 7000


def test_a_task_is_polled_by_its_own_path(cell: Cell, runner: JobRunner) -> None:
    runner.hold()
    answer = cell.post(cell.path(f"run/{CHAT}"), {"prompt": "x"}, headers=_TASK)
    task = answer.json()["result"]["taskId"]
    assert answer.json()["taskId"] == task
    path = cell.path(f"tasks/{task}")
    assert cell.get(path).json()["result"] == {"taskId": task, "status": "queued"}
    runner.go_on()
    eventually(lambda: cell.get(path).json()["result"]["status"] == "succeeded")
    assert cell.get(path).json()["result"]["result"]["choices"]
    for unknown in ("search", new_id()):
        check_envelope(cell.get(cell.path(f"tasks/{unknown}")), 404, 7000)
    other, _, key = cell.add_account("stranger")
    foreign = cell.get(
        f"/client/v4/accounts/{other}/ai/tasks/{task}", headers={"authorization": f"Bearer {key}"}
    )
    check_envelope(foreign, 404, 7000)
    check_envelope(cell.get(f"/client/v4/accounts/{other}/ai/tasks/{task}"), 403, 10000)


def test_a_submission_has_its_task_id_at_the_top_level_and_is_found_by_it(cell: Cell) -> None:
    path = cell.path(f"run/{CHAT}") + "?queueRequest=true"
    for requests in (1, 3):
        answer = cell.post(path, {"requests": [{"prompt": "x"}] * requests}).json()
        task = answer["taskId"]
        assert task == answer["result"]["request_id"]
        assert answer["success"] is True
        where = cell.path(f"tasks/{task}")
        eventually(lambda where=where: cell.get(where).json()["result"]["status"] == "succeeded")  # type: ignore[misc]
        found = cell.get(where).json()["result"]["result"]
        answers = [found] if requests == 1 else [each["result"] for each in found["responses"]]
        assert len(answers) == requests
        assert all(each["choices"] for each in answers)


def test_a_failed_task_is_an_error(cell: Cell) -> None:
    body = {"messages": prompt({"status": 500})}
    task = cell.post(cell.path(f"run/{CHAT}"), body, headers=_TASK).json()["result"]["taskId"]
    path = cell.path(f"tasks/{task}")
    eventually(lambda: cell.get(path).status_code == 500)
    check_envelope(cell.get(path), 500, 5001)
