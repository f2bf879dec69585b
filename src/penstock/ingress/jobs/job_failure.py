"""Restores a failed job's error, so that every endpoint reports it as for a live request."""

from functools import cache

from penstock.errors import EngineFailed, Error, JobCancelled, JobExpired
from penstock.records.job import Job, JobFailure, JobState


def job_error(job: Job) -> Error | None:
    """Return the error of an ended job that has no result; None if it has one."""
    match job.state:
        case JobState.CANCELLED:
            return JobCancelled()
        case JobState.EXPIRED:
            return JobExpired()
        case JobState.FAILED:
            failure = job.failure or JobFailure(EngineFailed.code, "Model execution failed.")
            return _by_code().get(failure.code, EngineFailed)(failure.message)
        case _:
            return None


@cache
def _by_code() -> dict[str, type[Error]]:
    kinds: list[type[Error]] = [Error]
    for kind in kinds:
        kinds += kind.__subclasses__()
    return {kind.code: kind for kind in kinds}
