"""Flex work: a job, the data stored with it, and how it ends."""

from enum import IntEnum, StrEnum
from typing import Final, NewType

import msgspec

from penstock.records.account import AccountId, KeyId
from penstock.records.decision import LoggedDecision
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
    """A job's priority; lower goes first. The fair order of accounts applies within each."""

    # Single jobs and small batches, whose callers expect the answer soon.
    FLEX = 0
    # Files of up to 50,000 lines, due within a day.
    BATCH = 1


class Door(StrEnum):
    """The API through which a job was submitted; it decides the format of the job's answer."""

    # `queueRequest` and `cf-aig-async`.
    WORKERS_AI = "workers_ai"
    # `/v1/batches`.
    BATCHES = "batches"
    # `service_tier: "flex"` and `Prefer: respond-async`.
    CHAT = "chat"
    # `background: true` in Responses: the response with the job's id gets the answer.
    RESPONSES = "responses"


class TicketChain(msgspec.Struct, frozen=True):
    """A `PromptChain` in the form stored with a job."""

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
    """A request's data other than its body, stored with the job so that a keeper can run it."""

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
    # Money limits on which this job has a hold until it ends.
    limits: tuple[int, ...] = ()
    # The contract that the request was submitted under, its class there, and the caller's model.
    contract: str = ""
    task: str = ""
    model_asked: str = ""

    @property
    def held_nanousd(self) -> int:
        """The job's hold on each of its limits: its maximum cost, at its own price."""
        usage = Usage(self.prompt_tokens_estimate, self.output_tokens_max, 0)
        return cost_nanousd(usage, Price(*self.price))


class NewJob(msgspec.Struct, frozen=True):
    """One job to be submitted. `payload` is the chat request's JSON object."""

    id: JobId
    payload: bytes
    ticket: Ticket
    # Echoed to the caller: `external_reference` or `custom_id`.
    reference: str | None = None
    # The job's index in its batch.
    item: int = 0
    idempotency_key: str | None = None
    # The object with the payload if that is too large for a row; uploaded before the row commits.
    payload_object: str = ""
    # What its contract changed, to be logged when it is submitted.
    decisions: tuple[LoggedDecision, ...] = ()

    @property
    def tokens(self) -> int:
        """The job's cost in the fair order."""
        return max(1, self.ticket.prompt_tokens_estimate + self.ticket.output_tokens_max)


class Submission(msgspec.Struct, frozen=True):
    """The data shared by all jobs that are submitted together."""

    account: AccountId
    key: KeyId
    model: ModelId
    door: Door
    # In seconds since 1970.
    deadline: float
    priority: Priority = Priority.FLEX
    # The account's weight in the fair order.
    weight: int = 1
    batch: BatchId | None = None


class ClaimedJob(msgspec.Struct, frozen=True):
    """A job that a keeper may run while its claim lasts. Writes with an old `epoch` are refused."""

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
    # How often the job was started, including this time; hand-backs are not counted.
    attempts: int
    door: Door = Door.CHAT
    # No flag for cancellation: a keeper learns of it when it renews its claim.


class Released(msgspec.Struct, frozen=True):
    """The hold that a job has on its account's money limits, to be released at the job's end."""

    account: AccountId
    key: KeyId
    workflow: str
    session: str
    limits: tuple[int, ...]
    nanousd: int
    # The time in the job's id, in seconds since 1970; it determines the limits' windows.
    asked_at: float


class JobFailure(msgspec.Struct, frozen=True):
    """Why a job failed: the code, message and status of an error, as reported to the caller."""

    code: str
    message: str
    status: int = 500


class JobEnd(msgspec.Struct, frozen=True):
    """How a claimed job ended. `result` is the engine's whole chat completion."""

    id: JobId
    epoch: int
    result: bytes = b""
    result_object: str = ""
    failure: JobFailure | None = None
    usage: Usage | None = None
    charge_nanousd: int = 0
    replica: str = ""


class Job(msgspec.Struct, frozen=True):
    """A job as shown to its account."""

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
    # The failure of the last attempt that failed, even if the job was retried since.
    last_error: JobFailure | None = None


FINAL_STATES: Final = tuple(state for state in JobState if state.is_final)
