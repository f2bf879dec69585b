"""One of everything that an account can have, with a mark in it that nobody else may see."""

from typing import Any

import msgspec
from tests.integration.cells.batch_cell import line, sdk, start_batch, wait_for
from tests.integration.cells.gateway_cell import CHAT, Cell, chat_body
from tests.integration.cells.gateway_process import eventually
from tests.integration.cells.happened_events import happen
from tests.integration.cells.job_runner import JobRunner

MARK = "belongs-to-a"
HOOK = f"https://hooks.example/{MARK}"
_V1 = "/v1/chat/completions"
_SCRIPT = {"text": f"{MARK} answer"}


class Objects(msgspec.Struct, frozen=True):
    """Ids by the path that shows the object, and all that must stay its account's."""

    by_path: dict[str, str]
    secrets: list[str]


def make_objects(cell: Cell, runner: JobRunner) -> Objects:
    """Objects of the cell's own account. Two jobs and a batch wait, for others to try to cancel."""
    named = {**_served(cell), **_queued(cell), **_batches(cell), **_endpoints(cell)}
    named |= {**_kept(cell), **_containers(cell)}
    happen(cell, cell.account, "job.succeeded", f"{MARK}-event")
    runner.hold()
    waiting = _job(cell)
    open_batch = start_batch(sdk(cell), line("waits", MARK), metadata={"who": MARK})
    wait_for(sdk(cell), open_batch, "in_progress")
    named |= {
        "DELETE /v1/jobs/{id}": waiting,
        "POST /v1/batches/{batch_id}/cancel": open_batch.id,
    }
    secrets = [
        part
        for name, value in named.items()
        if not name.endswith("{session}")
        for part in value.split()
    ]
    return Objects(named, [MARK, cell.account, cell.key, cell.key_id, *secrets])


def _served(cell: Cell) -> dict[str, str]:
    """A request that was served, as usage shows it."""
    labels = {"x-session-id": f"{MARK}-session", "x-penstock-workflow": f"{MARK}/flow"}
    answer = cell.post(_V1, chat_body(CHAT, _SCRIPT), headers=labels)
    assert answer.status_code == 200, answer.text
    request = answer.headers["x-request-id"]
    eventually(lambda: cell.get(f"/v1/usage/requests/{request}").status_code == 200)
    return {
        "/v1/usage/requests/{id}": request,
        "/v1/usage/sessions/{session}": f"{MARK}-session",
    }


def _queued(cell: Cell) -> dict[str, str]:
    """A job, a task and a queued request that have ended."""
    job = _job(cell)
    task = cell.post(
        cell.path(f"run/{CHAT}"), chat_body(CHAT, _SCRIPT), headers={"cf-aig-async": "true"}
    )
    queue = cell.path(f"run/{CHAT}?queueRequest=true")
    queued = cell.post(queue, {"requests": [{"prompt": MARK}]}).json()["result"]["request_id"]
    eventually(lambda: cell.get(f"/v1/jobs/{job}").json()["state"] == "succeeded")
    eventually(lambda: "responses" in cell.post(queue, {"request_id": queued}).json()["result"])
    return {
        "/v1/jobs/{id}": job,
        "/client/v4/accounts/{account_id}/ai/tasks/{id}": task.json()["result"]["taskId"],
        "queued": queued,
    }


def _job(cell: Cell) -> str:
    body = chat_body(CHAT, _SCRIPT)
    answer = cell.post(_V1, body, headers={"prefer": "respond-async"})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


def _batches(cell: Cell) -> dict[str, str]:
    """A batch that has ended, its input, and its output."""
    client = sdk(cell)
    script = msgspec.json.encode(_SCRIPT).decode()
    batch = start_batch(client, line(MARK, f"{MARK}\n@script {script}"), metadata={"who": MARK})
    done = wait_for(client, batch, "completed")
    assert done.output_file_id is not None
    return {
        "/v1/batches/{batch_id}": batch.id,
        "/v1/files/{file_id}": done.output_file_id,
        "input": done.input_file_id,
    }


def _kept(cell: Cell) -> dict[str, str]:
    """A stored response, one that waits in the background, and a conversation with an item."""
    body = {"model": CHAT, "input": MARK, "store": True}
    response = cell.post("/v1/responses", body).json()["id"]
    waiting = cell.post("/v1/responses", {**body, "background": True}).json()["id"]
    items = [{"role": "user", "content": MARK}]
    talk = cell.post("/v1/conversations", {"items": items, "metadata": {"who": MARK}}).json()["id"]
    item = cell.get(f"/v1/conversations/{talk}/items").json()["data"][0]["id"]
    return {
        f"{base}/{path}": id
        for base in ("/v1", "/client/v4/accounts/{account_id}/ai/v1")
        for path, id in (
            ("responses/{id}", response),
            ("responses/{id}/cancel", waiting),
            ("conversations/{id}", talk),
            ("conversations/{id}/items/{item_id}", f"{talk} {item}"),
        )
    }


def _containers(cell: Cell) -> dict[str, str]:
    """A container with a file."""
    client = sdk(cell)
    container = client.containers.create(name=MARK).id
    content = (f"{MARK}.csv", MARK.encode())
    file = client.containers.files.create(container, file=content).id
    return {
        f"{base}/{path}": id
        for base in ("/v1", "/client/v4/accounts/{account_id}/ai/v1")
        for path, id in (
            ("containers/{container_id}", container),
            ("containers/{container_id}/files/{file_id}", f"{container} {file}"),
        )
    }


def _endpoints(cell: Cell) -> dict[str, str]:
    webhook = cell.post(
        "/v1/webhook_endpoints", {"name": MARK, "url": HOOK, "event_types": ["batch.completed"]}
    ).json()
    subscriptions = f"/client/v4/accounts/{cell.account}/event_subscriptions/subscriptions"
    made = cell.post(subscriptions, subscription(MARK, HOOK)).json()["result"]
    return {
        "/v1/webhook_endpoints/{id}": webhook["id"],
        "/client/v4/accounts/{account_id}/event_subscriptions/subscriptions/{id}": made["id"],
        "webhook secret": webhook["signing_secret"],
        "subscription secret": made["signing_secret"],
    }


def subscription(name: str, url: str) -> dict[str, Any]:
    return {
        "name": name,
        "events": ["cf.workersAi.model.batch.succeeded"],
        "source": {"type": "workersAi.model", "model_name": CHAT},
        "destination": {"type": "webhook", "url": url},
    }
