"""Batches as a client of openai's SDK makes them, and a stand-in for the keepers that run them."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import openai
from openai.types import Batch
from tests.integration.cells.gateway_cell import CHAT, PAIR, Cell
from tests.integration.cells.gateway_process import eventually

from penstock.queue import Claim, Queue, QueueSettings
from penstock.records.job import ClaimedJob, JobEnd, JobFailure
from penstock.records.model import ModelId
from penstock.store import Store
from penstock.store.kept_values import KeptValues

# Short, so that no test waits for a loop that looks once a second.
QUICK: dict[str, object] = {
    "ingress.batch_poll_seconds": 0.05,
    "ingress.batch_pause_seconds": 0.2,
    "ingress.batch_lease_seconds": 2.0,
}
FAILS = "fail this one"


def sdk(cell: Cell, key: str = "") -> openai.OpenAI:
    """A client that is closed with the cell."""
    url = f"{cell.gateway.url}/v1"
    client = openai.OpenAI(base_url=url, api_key=key or cell.key, max_retries=0, timeout=30)
    cell._stack.callback(client.close)
    return client


def line(custom_id: str, text: str = "hello", model: str = CHAT, **fields: object) -> str:
    """One line of an input file."""
    messages = [{"role": "user", "content": text}]
    request = {
        "custom_id": custom_id,
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": {"model": model, "messages": messages, "max_tokens": 8},
    }
    return json.dumps({**request, **fields})


def start_batch(client: openai.OpenAI, *lines: str, **fields: Any) -> Batch:
    file = client.files.create(file=("in.jsonl", "\n".join(lines).encode()), purpose="batch")
    return client.batches.create(
        input_file_id=file.id,
        endpoint="/v1/chat/completions",
        completion_window="24h",
        **fields,
    )


def wait_for(client: openai.OpenAI, batch: Batch, status: str, seconds: float = 20) -> Batch:
    seen = batch

    def is_there() -> bool:
        nonlocal seen
        seen = client.batches.retrieve(batch.id)
        return seen.status == status

    try:
        eventually(is_there, seconds)
    except AssertionError:
        raise AssertionError(f"the batch is not {status}: {seen}") from None
    return seen


def run_jobs(cell: Cell, count: int = 10_000, models: tuple[str, ...] = (CHAT, PAIR)) -> int:
    """Run up to so many of the jobs that wait, as keepers would; how many there were."""
    return cell.run(_runner(cell, count, models))


def lines_in(client: openai.OpenAI, file: str | None) -> list[dict[str, Any]]:
    assert file is not None
    return [json.loads(text) for text in client.files.content(file).text.splitlines()]


def _runner(cell: Cell, count: int, models: tuple[str, ...]) -> Callable[[Store], Awaitable[int]]:
    async def run(store: Store) -> int:
        queue, done = Queue(QueueSettings()), 0
        values = await cell.open_values(store)
        for model in models:
            want = Claim(ModelId(model), min(count, 1000), "test", 60)
            while done < count:
                async with store.transaction() as tx:
                    jobs = await queue.claim(tx, want)
                    await queue.finish(tx, [await _end(values, job) for job in jobs])
                if not jobs:
                    break
                done += len(jobs)
        return done

    return run


async def _end(values: KeptValues, job: ClaimedJob) -> JobEnd:
    payload = await values.get(job.account, job.id, job.payload_object, job.payload)
    asked = json.loads(payload)
    text = asked["messages"][0]["content"]
    if text == FAILS:
        failure = JobFailure("engine_failed", "Model execution failed.", 502)
        return JobEnd(job.id, job.epoch, failure=failure)
    answer = {
        "id": job.id,
        "object": "chat.completion",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": f"re: {text}"}}],
    }
    [kept] = await values.keep([(job.account, job.id, json.dumps(answer, indent=1).encode())])
    await values.put([kept])
    return JobEnd(job.id, job.epoch, result=kept.inline, result_object=kept.name)
