"""Makes a job of a request that was read, and a request of a job that a keeper claimed. Pure."""

from typing import Final

import msgspec
from msgspec import Raw

from penstock.clock import timestamp_of
from penstock.records.account import AccountId, KeyId
from penstock.records.job import ClaimedJob, JobId, NewJob, Released, Ticket, TicketChain
from penstock.records.model import Model
from penstock.records.price import Price, Tier
from penstock.records.request import (
    ChargedBy,
    InferenceRequest,
    RequestId,
    RequestLabels,
    RequestPlacement,
    RequestPrompt,
    RequestTerms,
)
from penstock.records.tool_terms import ToolTerms

# A job's answer is never streamed: the endpoint that reads it shapes it.
_NOT_KEPT: Final = frozenset({"stream", "stream_options"})
# The ledger counts attempts in 16 bits. Beyond this, two share a row: the last charge stands.
_ATTEMPTS_MAX: Final = 30_000

_payloads = msgspec.json.Decoder(dict[str, Raw])


def new_job(
    request: InferenceRequest,
    *,
    reference: str | None = None,
    item: int = 0,
    idempotency_key: str | None = None,
) -> NewJob:
    """Make a job of a request that was read for a later tier; its id becomes the job's."""
    assert request.terms.tier is not Tier.NOW, "a live request is no job"
    body = {name: value for name, value in request.prompt.body.items() if name not in _NOT_KEPT}
    ticket = Ticket(
        price=request.terms.price.terms,
        tier=request.terms.tier,
        session=request.labels.session,
        session_key=request.placement.session_key,
        workflow=request.labels.workflow,
        prompt_family=request.labels.prompt_family,
        caller_request_id=request.labels.caller_request_id,
        client_retry=request.labels.client_retry,
        choices=request.prompt.choices,
        prompt_tokens_estimate=request.terms.prompt_tokens_estimate,
        output_tokens_max=request.terms.output_tokens_max,
        is_affinity_strict=request.placement.is_affinity_strict,
        chain=TicketChain.of(request.prompt.chain),
        contract=request.labels.contract,
        task=request.labels.task,
        model_asked=request.labels.model_asked,
    )
    return NewJob(
        id=JobId(request.id),
        payload=msgspec.json.encode(body),
        ticket=ticket,
        reference=reference,
        item=item,
        idempotency_key=idempotency_key,
        decisions=request.decisions,
    )


def to_request(
    job: ClaimedJob,
    model: Model,
    cache_salt: str,
    payload: bytes,
    tool_terms: ToolTerms | None = None,
) -> InferenceRequest:
    """Return a claimed job's request, for the path. Each claim has its own attempt numbers."""
    ticket = job.ticket
    return InferenceRequest(
        id=RequestId(job.id),
        account=job.account,
        key=job.key,
        model=model,
        tool_terms=tool_terms,
        prompt=RequestPrompt(
            body=_payloads.decode(payload),
            is_stream=False,
            cache_salt=cache_salt,
            chain=ticket.chain.chain(),
            choices=ticket.choices,
        ),
        labels=RequestLabels(
            session=ticket.session,
            workflow=ticket.workflow,
            prompt_family=ticket.prompt_family,
            caller_request_id=ticket.caller_request_id,
            client_retry=ticket.client_retry,
            contract=ticket.contract,
            task=ticket.task,
            model_asked=ticket.model_asked,
        ),
        terms=RequestTerms(
            asked_at=timestamp_of(job.id),
            tier=ticket.tier,
            charged_by=ChargedBy.COMPLETION,
            price=Price(*ticket.price),
            prompt_tokens_estimate=ticket.prompt_tokens_estimate,
            output_tokens_max=ticket.output_tokens_max,
        ),
        placement=RequestPlacement(
            session_key=ticket.session_key,
            is_affinity_strict=ticket.is_affinity_strict,
            attempt_base=min(job.epoch - 1, _ATTEMPTS_MAX),
        ),
    )


def held_by(account: AccountId, key: KeyId, job: JobId, ticket: Ticket) -> Released:
    """Return what a job holds of its limits until it ends."""
    return Released(
        account=account,
        key=key,
        workflow=ticket.workflow,
        session=ticket.session,
        limits=ticket.limits,
        nanousd=ticket.held_nanousd,
        asked_at=timestamp_of(job),
    )
