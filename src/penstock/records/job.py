"""Work that is wanted later: a job, what travels with it, and how it ends."""

from enum import IntEnum, StrEnum
from typing import Final, NewType

import msgspec

from penstock.records.account import AccountId, KeyId
from penstock.records.model import ModelId
from penstock.records.price import ONCE, Price, Terms, Tier, cost_nanousd
from penstock.records.prompt_chain import PromptChain
from penstock.records.usage import Usage

# A UUIDv7: the job's request id in journal, ledger and engine.
JobId = NewType("JobId", str)
BatchId = NewType("BatchId", str)


class JobState(StrEnum):
    """queued → running → succeeded | failed | cancelled | expired; running → queued again."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"

    @property
    def is_final(self) -> bool:
        return self not in (JobState.QUEUED, JobState.RUNNING)


class Priority(IntEnum):
    """Lower goes first. Fair order between accounts is kept within each."""

    # Single jobs and small batches: somebody looks for the answer soon.
    FLEX = 0
    # Files of up to 50,000 lines, due within a day.
    BATCH = 1


class Door(StrEnum):
    """Where a job came in; it decides the shape in which its answer is read."""

    # `queueRequest` and `cf-aig-async`.
    WORKERS_AI = "workers_ai"
    # `/v1/batches`.
    BATCHES = "batches"
    # `service_tier: "flex"` and `Prefer: respond-async`.
    CHAT = "chat"


class TicketChain(msgspec.Struct, frozen=True):
    """A `PromptChain` as it is stored."""

    links: tuple[int, ...] = ()
    sizes: tuple[int, ...] = ()
    earlier: int = 0
    has_system: bool = False
    opening: int = 0

    @staticmethod
    def of(chain: PromptChain) -> "TicketChain":
        return TicketChain(chain.links, chain.sizes, chain.earlier, chain.has_system, chain.opening)

    def chain(self) -> PromptChain:
        return PromptChain(self.links, self.sizes, self.earlier, self.has_system, self.opening)


class Ticket(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a request knows beside its body, kept with the job so that a keeper can run it."""

    price: Terms = (0, 0, 0, ONCE)
    tier: Tier = Tier.FLEX
    session: str = ""
    session_key: int = 0
    workflow: str = ""
    prompt_family: str = ""
    caller_request_id: str = ""
    client_retry: int | None = None
    choices: int = 1
    prompt_tokens_estimate: int = 0
    output_tokens_max: int = 0
    is_affinity_strict: bool = False
    chain: TicketChain = TicketChain()
    # Money limits that hold this job's estimate until it ends.
    limits: tuple[int, ...] = ()

    @property
    def held_nanousd(self) -> int:
        """What is held of each of its limits: the most that it may cost, at its own price."""
        usage = Usage(self.prompt_tokens_estimate, self.output_tokens_max, 0)
        return cost_nanousd(usage, Price(*self.price))


class NewJob(msgspec.Struct, frozen=True):
    """One job to be submitted. `payload` is the chat request's JSON object."""

    id: JobId
    payload: bytes
    ticket: Ticket
    # Echoed to the caller: `external_reference` or `custom_id`.
    reference: str | None = None
    # Its place in its batch.
    item: int = 0
    idempotency_key: str | None = None
    # Where the payload is when it is too large for a row; uploaded before the row commits.
    payload_object: str = ""

    @property
    def tokens(self) -> int:
        """What it weighs in the fair order."""
        return max(1, self.ticket.prompt_tokens_estimate + self.ticket.output_tokens_max)


class Submission(msgspec.Struct, frozen=True):
    """What all jobs that are submitted together share."""

    account: AccountId
    key: KeyId
    model: ModelId
    door: Door
    # In seconds since 1970.
    deadline: float
    priority: Priority = Priority.FLEX
    # The account's share in the fair order.
    weight: int = 1
    batch: BatchId | None = None


class ClaimedJob(msgspec.Struct, frozen=True):
    """A job that a keeper may run while its lease lasts. `epoch` guards what it writes."""

    id: JobId
    epoch: int
    account: AccountId
    key: KeyId
    model: ModelId
    priority: Priority
    payload: bytes
    payload_object: str
    ticket: Ticket
    # In seconds since 1970.
    created_at: float
    deadline: float
    # How often it was begun, this time included; hand-backs are not counted.
    attempts: int
    # Whether its caller has cancelled it is found when its lease is renewed.


class Released(msgspec.Struct, frozen=True):
    """What a job held of its account's money limits when it ended without a charge."""

    account: AccountId
    key: KeyId
    workflow: str
    session: str
    limits: tuple[int, ...]
    nanousd: int
    # The time in the job's id, in seconds since 1970: it tells the limits' windows.
    asked_at: float


class JobFailure(msgspec.Struct, frozen=True):
    """Why a job failed: an error of the tree by its code, as the caller is told."""

    code: str
    message: str
    status: int = 500


class JobEnd(msgspec.Struct, frozen=True):
    """How a claimed job ended. A result is the whole chat completion as engines answer it."""

    id: JobId
    epoch: int
    result: bytes = b""
    result_object: str = ""
    failure: JobFailure | None = None
    usage: Usage | None = None
    charge_nanousd: int = 0
    replica: str = ""


class Job(msgspec.Struct, frozen=True):
    """A job as its account sees it."""

    id: JobId
    account: AccountId
    model: ModelId
    door: Door
    priority: Priority
    state: JobState
    batch: BatchId | None
    item: int
    reference: str | None
    # In seconds since 1970.
    created_at: float
    deadline: float
    started_at: float | None = None
    finished_at: float | None = None
    attempts: int = 0
    result: bytes = b""
    result_object: str = ""
    failure: JobFailure | None = None
    usage: Usage | None = None
    charge_nanousd: int = 0
    is_cancelling: bool = False
    # How the last attempt that failed ended, also if the job was tried again since.
    last_error: JobFailure | None = None


FINAL_STATES: Final = tuple(state for state in JobState if state.is_final)
