"""Claimed jobs for the tests of this folder."""

from penstock.clock import new_id
from penstock.puller.pulled_job import PulledJob
from penstock.records.account import AccountId, KeyId
from penstock.records.job import ClaimedJob, JobId, Priority, Ticket
from penstock.records.model import ModelId
from penstock.records.prompt_chain import PromptChain


def a_job(
    *, tokens: int = 100, opening: int = 0, lease_until: float = 30.0, is_reserved: bool = False
) -> PulledJob:
    chain = PromptChain(opening=opening)
    claimed = ClaimedJob(
        id=JobId(new_id()),
        epoch=1,
        account=AccountId("a"),
        key=KeyId("k"),
        model=ModelId("m"),
        priority=Priority.FLEX,
        payload=b"{}",
        payload_object="",
        ticket=Ticket(prompt_tokens_estimate=tokens, chain=chain),
        created_at=0.0,
        deadline=1e9,
        attempts=1,
    )
    return PulledJob(claimed, lease_until, is_reserved=is_reserved)
