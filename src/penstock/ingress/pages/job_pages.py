"""`/v1/jobs`: queued, running and ended jobs. A runtime key sees its own account's jobs."""

import msgspec
from msgspec import Raw
from starlette.requests import Request
from starlette.responses import Response

from penstock.errors import AccountBlocked, Forbidden, NotFound
from penstock.ingress.jobs.job_answers import JobLookup, SeenJob, job_answer
from penstock.ingress.jobs.queue_answers import QueueAnswers
from penstock.ingress.pages.json_pages import json_response
from penstock.intake.caller_headers import CallerHeaders
from penstock.intake.request_reader import RequestReader
from penstock.jobs.submission import JobDesk
from penstock.queue import JobQuery
from penstock.records.account import AccountId
from penstock.records.job import BatchId, JobId, JobState
from penstock.records.model import ModelId
from penstock.wire.apis.workers_ai import envelope
from penstock.wire.resources.jobs import JobListAnswer, JobsAsked, is_id, read_jobs_asked
from penstock.wire.resources.usage_query import read_parameters


class JobPages:
    """Lists, shows and cancels jobs."""

    def __init__(
        self, reader: RequestReader, lookup: JobLookup, answers: QueueAnswers, desk: JobDesk
    ) -> None:
        self._reader = reader
        self._answers = answers
        self._lookup = lookup
        self._desk = desk

    async def list_jobs(self, request: Request) -> Response:
        account = await self._account(request)
        asked = read_jobs_asked(request.query_params.multi_items(), account)
        jobs, has_more = await self._lookup.page(_query(asked))
        cursor = jobs[-1].id if has_more else None
        return json_response(JobListAnswer([job_answer(job) for job in jobs], has_more, cursor))

    async def show(self, request: Request) -> Response:
        account = await self._account(request)
        read_parameters(request.query_params.multi_items(), ())
        return await self._page(account, request.path_params["id"])

    async def cancel(self, request: Request) -> Response:
        """Cancel a queued job at once; mark a running one, which its keeper then ends soon."""
        account = await self._account(request)
        job_id = request.path_params["id"]
        if is_id(job_id):
            await self._desk.cancel(account, JobId(job_id))
        return await self._page(account, job_id)

    async def task(self, request: Request) -> Response:
        """Answer polls of `cf-aig-async` submissions, under Workers AI's paths."""
        account = await self._account(request)
        if account is None or request.path_params["account_id"] != account:
            raise Forbidden("The account in the path is not this key's account.")
        answer = await self._answers.task(account, request.path_params["id"])
        return Response(envelope(answer), media_type="application/json")

    async def _page(self, account: AccountId | None, job_id: str) -> Response:
        seen = await self._lookup.find(account, JobId(job_id))
        if seen is None:
            raise NotFound("There is no such job.")
        return json_response(await self._with_result(seen))

    async def _with_result(self, seen: SeenJob) -> object:
        answer = job_answer(seen.job, seen)
        if seen.job.state is not JobState.SUCCEEDED:
            return answer
        result = await self._desk.result_of(seen.job)
        return msgspec.structs.replace(answer, result=Raw(result))

    async def _account(self, request: Request) -> AccountId | None:
        """Return the only account that this key may see; None for an operator's, which sees all."""
        key = await self._reader.authenticate(CallerHeaders(request.scope["headers"]))
        if key.account is None:
            return None
        if key.account.is_blocked:
            raise AccountBlocked
        named = request.query_params.get("account")
        if named not in (None, key.account.id):
            raise Forbidden("This key sees its own account's jobs only.")
        return key.account.id


def _query(asked: JobsAsked) -> JobQuery:
    return JobQuery(
        account=None if asked.account is None else AccountId(asked.account),
        model=None if asked.model is None else ModelId(asked.model),
        state=asked.state,
        batch=None if asked.batch is None else BatchId(asked.batch),
        after=None if asked.after is None else JobId(asked.after),
        limit=asked.limit,
    )
