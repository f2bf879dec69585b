"""The flex queue in Postgres: jobs, their fair order, their batches, and the batches' files.

Guarantees: an accepted job is never lost; a job ends once, and a keeper can end it only with its
latest claim; accounts share the engines by weight. What is exported here joins the caller's
transaction. This room knows no prices: the puller runs jobs, metering charges for them.
"""

from penstock.queue.batches import Batch, Batches, NewBatch
from penstock.queue.claims import Claim
from penstock.queue.controls import FlexControl
from penstock.queue.ending import Cancelled, CancelledBatch, Finished, Retried
from penstock.queue.job_queries import JobQuery
from penstock.queue.jobs import Queue
from penstock.queue.leases import Renewed
from penstock.queue.measuring import FlexStats
from penstock.queue.outbox import NewEvent, OutboxEvent
from penstock.queue.settings import QueueSettings
from penstock.queue.states import TRANSITIONS
from penstock.queue.submitting import Submitted
from penstock.queue.sweeping import Swept

__all__ = [
    "TRANSITIONS",
    "Batch",
    "Batches",
    "Cancelled",
    "CancelledBatch",
    "Claim",
    "Finished",
    "FlexControl",
    "FlexStats",
    "JobQuery",
    "NewBatch",
    "NewEvent",
    "OutboxEvent",
    "Queue",
    "QueueSettings",
    "Renewed",
    "Retried",
    "Submitted",
    "Swept",
]
