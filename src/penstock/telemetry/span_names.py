"""The names of spans and of their attributes, and the version of the conventions they are from.

`gen_ai.*` is in development there, and names still change: whoever changes one here takes the
others and `SCHEMA_URL` from the same commit of open-telemetry/semantic-conventions-genai.
"""

from typing import Final

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/gen-ai-dev/1.42.0-dev"
SCOPE: Final = "penstock"

# Resource
SERVICE_NAME: Final = "service.name"
SERVICE_VERSION: Final = "service.version"
SERVICE_INSTANCE_ID: Final = "service.instance.id"
HOST_NAME: Final = "host.name"

# The span of a request
HTTP_REQUEST_METHOD: Final = "http.request.method"
HTTP_ROUTE: Final = "http.route"
HTTP_RESPONSE_STATUS_CODE: Final = "http.response.status_code"
ERROR_TYPE: Final = "error.type"
REQUEST_ID: Final = "penstock.request.id"
ACCOUNT: Final = "penstock.account"
CONTRACT: Final = "penstock.contract"
COST_USD: Final = "penstock.cost_usd"
WAITED_MS: Final = "penstock.waited_ms"
OUTCOME: Final = "penstock.outcome"

# The span of a job, which no HTTP request waits for
JOB_SPAN: Final = "penstock.job"
JOB_ID: Final = "penstock.job.id"

# The span of an attempt; its name is the operation and the model.
OPERATION_NAME: Final = "gen_ai.operation.name"
PROVIDER_NAME: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_STREAM: Final = "gen_ai.request.stream"
REQUEST_MAX_TOKENS: Final = "gen_ai.request.max_tokens"
REQUEST_CHOICE_COUNT: Final = "gen_ai.request.choice.count"
RESPONSE_MODEL: Final = "gen_ai.response.model"
TIME_TO_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
CONVERSATION_ID: Final = "gen_ai.conversation.id"
WORKFLOW_NAME: Final = "gen_ai.workflow.name"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
REPLICA: Final = "penstock.replica"
CACHED_EXPECTED: Final = "penstock.cached_expected"
SESSION_MOVED: Final = "penstock.session_moved"
CACHE_BREAK: Final = "penstock.cache_break"
USAGE_ESTIMATED: Final = "penstock.usage_estimated"

# The operation, by the engine's API. Messages and Responses are chats too.
OPERATIONS: Final = {"completions": "text_completion", "embeddings": "embeddings"}
CHAT_OPERATION: Final = "chat"

# An event of a request's span: a decision of its contract. Not `gen_ai.guardrail.*`, a draft there.
DECISION_EVENT: Final = "penstock.decision"
DECISION_KIND: Final = "penstock.decision.kind"
DECISION_VERDICT: Final = "penstock.decision.verdict"
DECISION_SUBJECTS: Final = "penstock.decision.subjects"
DECISION_OBSERVED: Final = "penstock.decision.observed"
