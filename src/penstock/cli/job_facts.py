"""Prints a job or a batch: one fact on each line, without empty ones."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from rich.text import Text

from penstock.cli.job_watch import PAUSED, age
from penstock.cli.output import console
from penstock.console.job_operations import JobNotes
from penstock.queue import Batch
from penstock.records.job import Door, JobState
from penstock.wire.resources.jobs import JobAnswer, JobError

Facts = Mapping[str, object]
_NAME_WIDTH: Final = 12
_APIS: Final = {
    Door.WORKERS_AI: "Workers AI",
    Door.BATCHES: "batches",
    Door.CHAT: "chat completions",
    Door.RESPONSES: "background responses",
}


def job_facts(job: JobAnswer, notes: JobNotes) -> Facts:
    usage, error = job.usage, job.error
    return {
        "job": job.id,
        "state": job_state(job, notes),
        "account": _account(job.account, notes.account_names),
        "model": job.model,
        "API": _APIS[Door(job.door)],
        "batch": job.batch,
        "reference": job.reference,
        "created": _utc(job.created_at),
        "started": _utc(job.started_at),
        "finished": _utc(job.finished_at),
        "deadline": _utc(job.deadline),
        "attempts": job.attempts,
        "position": job.position or None,
        "ETA": None if not isinstance(job.eta_seconds, float) else age(job.eta_seconds),
        "tokens": None
        if usage is None
        else f"{usage.prompt_tokens} prompt, {usage.completion_tokens} output",
        "cost": None if usage is None else f"${job.cost_usd}",
        "error": _told(error),
        # A failed job shows it as its error already.
        "last error": _told(job.last_error) if job.last_error != error else None,
    }


def job_state(job: JobAnswer, notes: JobNotes) -> str:
    """Return a job's state in the words for people."""
    if job.is_cancelling:
        return "cancelling"
    if job.state == JobState.QUEUED and job.model in notes.paused:
        return PAUSED
    return job.state


def batch_facts(batch: Batch, notes: JobNotes) -> Facts:
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
        "account": _account(batch.account, notes.account_names),
        "model": batch.model,
        "API": _APIS[batch.door],
        "created": _time(batch.created_at),
        "finished": _time(batch.ended_at),
        "deadline": _time(batch.deadline),
        "jobs": f"{batch.total}: {told}" if told else batch.total,
    }


def _batch_state(batch: Batch, notes: JobNotes) -> str:
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
    return None if seconds is None else _utc(datetime.fromtimestamp(seconds, UTC))


def _utc(at: datetime | None) -> str | None:
    return None if at is None else f"{at:%Y-%m-%d %H:%M:%S} UTC"
