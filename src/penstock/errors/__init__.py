"""Every error that crosses a room, cut by what a caller asks: did anything run, and may I retry?

Error
├── Refused             the caller's side; nothing ran, nothing is billed
│   ├── InvalidRequest        400  the request itself is wrong
│   │   ├── MissingBody           400  there is no body, or a required header is missing
│   │   ├── BadBase64             400  an inline image or file is not valid base64
│   │   ├── MissingCapability     400  the model cannot do what was asked
│   │   ├── PromptTooLong         400  the prompt is longer than the model's context
│   │   ├── StateUnavailable      400  it refers to what would have to be kept here
│   │   ├── MissingToolOutput     400  a call of a tool has no output
│   │   └── PromptOverContract    400  the prompt is longer than its contract allows
│   ├── Unauthenticated       401  no key, or one we do not know
│   ├── Forbidden             403  the key may not do this
│   │   ├── AccountBlocked        403  the whole account is stopped
│   │   ├── ModelNotAllowed       403  the model is private, or its contract does not name it
│   │   ├── ToolForbidden         403  the contract forbids a tool that is offered or demanded
│   │   └── WorkflowNotAllowed    403  the workflow is another account's, or not that of the key
│   ├── NotFound              404  no such path
│   │   ├── ContainerExpired      404  the container has ended
│   │   ├── ResponseNotFound      404  the response to go on from is not there
│   │   ├── UnknownModel          404  a well-formed name that is not in the catalogue
│   │   └── MalformedModel        404  not a model name at all
│   ├── LoraUnsupported       405  the model takes no adapters
│   ├── MethodNotAllowed      405  the path exists, the method does not
│   ├── BodyTooSlow           408  the body came slower than the least rate
│   ├── BodyTooLarge          413  the body is over the limit
│   ├── HeadersTooLarge       431  the headers are over the limit
│   ├── CostCapped            400  the request may cost more than its caller allows
│   ├── Conflict              409  the present state does not allow it
│   │   ├── JobCancelled          409  the job was cancelled before it was done
│   │   ├── ContainerBusy         409  other code runs in the container
│   │   └── ConversationLocked    409  another response is being written into the conversation
│   ├── QueueFull             429  the account has as many jobs waiting as it may
│   └── OverLimit             429  a limit on requests, tokens or money is reached
│       ├── RateLimited           429  of requests or tokens in this minute
│       ├── QuotaSpent            429  of requests or tokens in this day or month
│       └── BudgetSpent           429  of money
├── Unavailable         our side; nothing ran, safe to retry
│   ├── OutOfCapacity         429  every replica is busy and the wait was too long
│   ├── NoReplica             503  the model has no replica that can serve
│   ├── ReplicaUnreachable    503  the chosen replica did not take the request; try another
│   ├── Overloaded            503  this gateway holds as much as it may
│   ├── JobExpired            504  the job was not begun before its deadline
│   ├── SandboxUnavailable    503  no sandbox host takes a container or a call
│   ├── JournalFull           503  usage could not be recorded, so nothing is begun
│   └── StoreUnavailable      503  Postgres does not answer and the answer is not cached
│       └── ContentUnreadable     503  what was kept cannot be decrypted
├── Interrupted         our side; work began, usage is recorded, not safe to repeat blindly
│   ├── EngineLost            502  the engine went away in the middle
│   ├── EngineFailed          502  the engine answered with an error of its own
│   ├── SandboxLost           502  the sandbox host went away while code ran
│   ├── Aborted               503  this gateway was stopped while the answer was being made
│   ├── DeadlinePassed        504  the engine took longer than a timeout allows
│   └── InternalError         500  a bug of ours
├── Withheld            our side; it ran, is counted and charged, and would be withheld again
│   ├── ToolCallForbidden     403  the model called a tool that the contract forbids
│   └── ToolCallUnreadable    403  the model called a tool in a form that cannot be judged
└── Superseded          someone else owns it now, stop quietly
    ├── GenerationStale           a newer generation of this replica exists
    └── LeaseLost                 the job was given to another keeper, or has ended
"""

from penstock.errors.error import (
    Error,
)
from penstock.errors.refused import (
    AccountBlocked,
    BadBase64,
    BodyTooLarge,
    BodyTooSlow,
    BudgetSpent,
    Conflict,
    ContainerBusy,
    ContainerExpired,
    ConversationLocked,
    CostCapped,
    Forbidden,
    HeadersTooLarge,
    InvalidRequest,
    JobCancelled,
    LoraUnsupported,
    MalformedModel,
    MethodNotAllowed,
    MissingBody,
    MissingCapability,
    MissingToolOutput,
    ModelNotAllowed,
    NotFound,
    OverLimit,
    PromptOverContract,
    PromptTooLong,
    QueueFull,
    QuotaSpent,
    RateLimited,
    Refused,
    ResponseNotFound,
    StateUnavailable,
    ToolForbidden,
    Unauthenticated,
    UnknownModel,
    WorkflowNotAllowed,
)
from penstock.errors.unavailable import (
    ContentUnreadable,
    JobExpired,
    JournalFull,
    NoReplica,
    OutOfCapacity,
    Overloaded,
    ReplicaUnreachable,
    SandboxUnavailable,
    StoreUnavailable,
    Unavailable,
)
from penstock.errors.work_begun import (
    Aborted,
    DeadlinePassed,
    EngineFailed,
    EngineLost,
    GenerationStale,
    InternalError,
    Interrupted,
    LeaseLost,
    SandboxLost,
    Superseded,
    ToolCallForbidden,
    ToolCallUnreadable,
    Withheld,
)

__all__ = [
    "Aborted",
    "AccountBlocked",
    "BadBase64",
    "BodyTooLarge",
    "BodyTooSlow",
    "BudgetSpent",
    "Conflict",
    "ContainerBusy",
    "ContainerExpired",
    "ContentUnreadable",
    "ConversationLocked",
    "CostCapped",
    "DeadlinePassed",
    "EngineFailed",
    "EngineLost",
    "Error",
    "Forbidden",
    "GenerationStale",
    "HeadersTooLarge",
    "InternalError",
    "Interrupted",
    "InvalidRequest",
    "JobCancelled",
    "JobExpired",
    "JournalFull",
    "LeaseLost",
    "LoraUnsupported",
    "MalformedModel",
    "MethodNotAllowed",
    "MissingBody",
    "MissingCapability",
    "MissingToolOutput",
    "ModelNotAllowed",
    "NoReplica",
    "NotFound",
    "OutOfCapacity",
    "OverLimit",
    "Overloaded",
    "PromptOverContract",
    "PromptTooLong",
    "QueueFull",
    "QuotaSpent",
    "RateLimited",
    "Refused",
    "ReplicaUnreachable",
    "ResponseNotFound",
    "SandboxLost",
    "SandboxUnavailable",
    "StateUnavailable",
    "StoreUnavailable",
    "Superseded",
    "ToolCallForbidden",
    "ToolCallUnreadable",
    "ToolForbidden",
    "Unauthenticated",
    "Unavailable",
    "UnknownModel",
    "Withheld",
    "WorkflowNotAllowed",
]
