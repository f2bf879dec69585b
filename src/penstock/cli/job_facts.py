"""Prints a job or a batch: one fact on each line, without empty ones."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from rich.text import Text

from penstock.cli.job_watch import PAUSED, age
from penstock.cli.output import console
from penstock.cli.queue_desk import QueueNotes
from penstock.ingress.jobs.job_answers import SeenJob, job_answer
from penstock.queue import Batch
from penstock.records.job import Door, Job, JobState
from penstock.wire.resources.jobs import JobError

Facts = Mapping[str, object]
_NAME_WIDTH: Final = 12
_APIS: Final = {
    Door.WORKERS_AI: "Workers AI",
    Door.BATCHES: "batches",
    Door.CHAT: "chat completions",
    Door.RESPONSES: "background responses",
}


def job_facts(seen: SeenJob, notes: QueueNotes) -> Facts:
    job, answer = seen.job, job_answer(seen.job)
    usage, error = answer.usage, answer.error
    return {
        "job": job.id,
        "state": job_state(job, notes),
        "account": _account(job.account, notes.names),
        "model": job.model,
        "API": _APIS[job.door],
        "batch": answer.batch,
        "reference": job.reference,
        "created": _time(job.created_at),
        "started": _time(job.started_at),
        "finished": _time(job.finished_at),
        "deadline": _time(job.deadline),
        "attempts": job.attempts,
        "position": seen.position,
        "ETA": None if seen.eta_seconds is None else age(seen.eta_seconds),
        "tokens": None
        if usage is None
        else f"{usage.prompt_tokens} prompt, {usage.completion_tokens} output",
        "cost": None if usage is None else f"${answer.cost_usd}",
        "error": _told(error),
        # A failed job shows it as its error already.
        "last error": _told(answer.last_error) if answer.last_error != error else None,
    }


def job_state(job: Job, notes: QueueNotes) -> str:
    """Return a job's state in the words for people."""
    if job.is_cancelling:
        return "cancelling"
    if job.state is JobState.QUEUED and job.model in notes.paused:
        return PAUSED
    return job.state


def batch_facts(batch: Batch, notes: QueueNotes) -> Facts:
    counts = {
        "queued": batch.open_jobs - batch.running,
        "running": batch.running,
        "succeeded": batch.succeeded,
        "failed": batch.failed,
        "cancelled": batch.cancelled,
        "expired": batch.expired,
    }
    told = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    return {
        "batch": batch.id,
        "state": _batch_state(batch, notes),
        "account": _account(batch.account, notes.names),
        "model": batch.model,
        "API": _APIS[batch.door],
        "created": _time(batch.created_at),
        "finished": _time(batch.ended_at),
        "deadline": _time(batch.deadline),
        "jobs": f"{batch.total}: {told}" if told else batch.total,
    }


def _batch_state(batch: Batch, notes: QueueNotes) -> str:
    if batch.is_cancelling and batch.open_jobs:
        return "cancelling"
    return PAUSED if batch.open_jobs and batch.model in notes.paused else batch.state


def _account(id: str, names: Mapping[str, str]) -> str:
    return f"{names[id]} ({id})" if id in names else id


def _told(error: JobError | None) -> str | None:
    return None if error is None else f"{error.code}: {error.message}"


def print_facts(facts: Facts) -> None:
    out = console()
    for name, value in facts.items():
        if value is not None:
            line = Text.assemble((f"{name:<{_NAME_WIDTH}}", "bold"), str(value))
            out.print(line, soft_wrap=True)


def _time(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
