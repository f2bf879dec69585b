"""A request becomes a job and a request again, and nothing that matters is lost on the way."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.engine.engine_line import MODEL, make_request

from penstock.clock import new_id, timestamp_of
from penstock.jobs.job_requests import held_by, new_job, to_request
from penstock.records.job import ClaimedJob, NewJob, Priority, Ticket
from penstock.records.price import Price, Tier, cost_nanousd
from penstock.records.prompt_chain import PromptChain
from penstock.records.request import ChargedBy, InferenceRequest, RequestId
from penstock.records.usage import Usage
from penstock.testing.sample_request import flat_fields

COUNTS = st.integers(0, 2**31)
LABELS = st.text(max_size=20)
HASHES = st.integers(0, 2**64 - 1)
CHAINS = st.builds(
    PromptChain,
    links=st.lists(HASHES, max_size=4).map(tuple),
    sizes=st.lists(COUNTS, max_size=4).map(tuple),
    earlier=st.integers(0, 4),
    has_system=st.booleans(),
    opening=HASHES,
)
FACTS = st.fixed_dictionaries(
    {
        "tier": st.sampled_from([Tier.FLEX, Tier.BATCH]),
        "price": st.builds(Price, COUNTS, COUNTS, COUNTS, st.integers(0, 10**6)),
        "session": LABELS,
        "session_key": HASHES,
        "workflow": LABELS,
        "prompt_family": LABELS,
        "caller_request_id": LABELS,
        "client_retry": st.none() | st.integers(0, 100),
        "choices": st.integers(1, 8),
        "prompt_tokens_estimate": COUNTS,
        "output_tokens_max": COUNTS,
        "is_affinity_strict": st.booleans(),
        "chain": CHAINS,
    }
)


def asked(facts: dict[str, Any]) -> InferenceRequest:
    id = RequestId(new_id())
    return make_request(id=id, asked_at=timestamp_of(id), **facts)


def claimed(job: NewJob, request: InferenceRequest, epoch: int = 1) -> ClaimedJob:
    """As it comes back out of a row."""
    ticket = msgspec.msgpack.decode(msgspec.msgpack.encode(job.ticket), type=Ticket)
    return ClaimedJob(
        id=job.id,
        epoch=epoch,
        account=request.account,
        key=request.key,
        model=request.model.id,
        priority=Priority.FLEX,
        payload=job.payload,
        payload_object="",
        ticket=ticket,
        created_at=0.0,
        deadline=1.0,
        attempts=1,
    )


@given(FACTS, st.booleans(), st.integers(1, 100_000))
def test_job_runs_as_the_request_it_was(facts: dict[str, Any], is_stream: bool, epoch: int) -> None:
    request = asked({**facts, "is_stream": is_stream})
    job = claimed(new_job(request), request, epoch)
    again = to_request(job, MODEL, request.prompt.cache_salt, job.payload)
    same = ("body", "is_stream", "attempt_base", "charged_by")
    before, after = flat_fields(request), flat_fields(again)
    for name in before.keys() - set(same):
        assert after[name] == before[name], name
    assert again.prompt.is_stream is False
    assert again.terms.charged_by is ChargedBy.COMPLETION
    # Attempts of different claims never meet, and always fit into the ledger's 16 bits.
    assert again.placement.attempt_base == min(epoch - 1, 30_000)


def test_body_is_kept_but_for_how_it_would_be_streamed() -> None:
    body = (
        b'{"messages":[{"role":"user","content":"\xc3\xbc"}],"stream":true,'
        b'"stream_options":{"include_usage":true},"max_tokens":7}'
    )
    request = asked({"body": body, "tier": Tier.FLEX})
    job = new_job(request, reference="mine", item=3, idempotency_key="k")
    assert (job.reference, job.item, job.idempotency_key) == ("mine", 3, "k")
    ran = to_request(claimed(job, request), MODEL, "salt", job.payload)
    assert {name: bytes(value) for name, value in ran.prompt.body.items()} == {
        "messages": b'[{"role":"user","content":"\xc3\xbc"}]',
        "max_tokens": b"7",
    }


def test_what_is_wanted_now_is_no_job() -> None:
    with pytest.raises(AssertionError):
        new_job(make_request())


@given(FACTS)
def test_job_holds_the_most_that_it_may_cost(facts: dict[str, Any]) -> None:
    request = asked(facts)
    job = new_job(request)
    held = held_by(request.account, request.key, job.id, job.ticket)
    most = Usage(request.terms.prompt_tokens_estimate, request.terms.output_tokens_max, 0)
    assert held.nanousd == cost_nanousd(most, request.terms.price)
    assert (held.asked_at, held.limits) == (request.terms.asked_at, ())
    assert (held.workflow, held.session) == (request.labels.workflow, request.labels.session)
