"""Claimed jobs for the tests of this folder."""

from penstock.clock import new_id
from penstock.puller.pulled_job import PulledJob
from penstock.records.account import AccountId, KeyId
from penstock.records.job import ClaimedJob, JobId, Priority, Ticket, TicketChain
from penstock.records.model import ModelId


def a_job(
    *, tokens: int = 100, opening: int = 0, lease_until: float = 30.0, is_reserved: bool = False
) -> PulledJob:
    chain = TicketChain(opening=opening)
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
