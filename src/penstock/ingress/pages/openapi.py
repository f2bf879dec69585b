"""Generates `/openapi.json` from the wire types, so that it cannot contradict them."""

from functools import cache
from typing import Any, Final

import msgspec

from penstock.ingress.pages.openapi_apis import API_TYPES, api_paths
from penstock.ingress.pages.openapi_containers import CONTAINER_TYPES, container_paths
from penstock.ingress.pages.openapi_decisions import DECISION_TYPES, decision_paths
from penstock.ingress.pages.openapi_events import EVENT_TYPES, event_paths
from penstock.ingress.pages.openapi_state import STATE_TYPES, state_paths
from penstock.queue.files import UPLOADED
from penstock.records.job import JobState
from penstock.records.model import Family
from penstock.wire.apis import queued
from penstock.wire.resources import (
    api_schemas,
    batches,
    errors,
    jobs,
    models,
    routing,
    schemas,
    usage,
)
from penstock.wire.resources.jobs import JOBS_DEFAULT, JOBS_MAX
from penstock.wire.resources.usage_query import ROWS_DEFAULT, ROWS_MAX, Label, Step

Schema = dict[str, Any]

_V1: Final = "OpenAIErrorAnswer"
_V4: Final = "EnvelopeErrorAnswer"
_REF: Final = "#/components/schemas/{name}"
# No type: OpenAPI 3.1 leaves open whether a schema here describes one event or the whole stream.
_EVENTS: Final = "Server-sent events, each a chunk as JSON; the last is `data: [DONE]`."
_TYPES: Final = (
    schemas.ChatCompletionRequest, schemas.RunMessagesRequest, schemas.RunPromptRequest,
    schemas.RunRequest, schemas.RunQueuedRequest, schemas.RunPollRequest,
    schemas.ChatCompletion, schemas.NativeResult,
    errors.OpenAIErrorAnswer, errors.EnvelopeErrorAnswer,
    models.OpenAIModel, models.OpenAIModelList, models.FoundModel,
    usage.UsageAnswer, usage.SessionAnswer, usage.RequestAnswer, routing.RoutingAnswer,
    jobs.JobAnswer, jobs.JobListAnswer, queued.QueuedAnswer, queued.PendingAnswer,
    queued.FinalAnswer, queued.TaskAnswer,
    batches.FileObject, batches.FileList, batches.FileDeleted, batches.CreateBatch,
    batches.BatchObject, batches.BatchList,
    *API_TYPES,
    *DECISION_TYPES, *EVENT_TYPES,
    *STATE_TYPES,
    *CONTAINER_TYPES,
)  # fmt: skip


@cache
def document() -> Schema:
    """Return the whole description, OpenAPI 3.1."""
    _, components = msgspec.json.schema_components(_TYPES, ref_template=_REF)
    # msgspec cannot tell two object shapes of one union apart when decoding, but clients can.
    queue_answers = ("QueuedAnswer", "PendingAnswer", "FinalAnswer", "TaskAnswer")
    run_answers = ("ChatCompletion", "NativeResult", "Response", "Vectors", *queue_answers)
    run = _envelope({"anyOf": [_ref(name) for name in run_answers]})
    # Answers to queued submissions have this field beside `result`.
    run["properties"]["taskId"] = {"type": "string"}
    components["RunEnvelope"] = run
    components["JobEnvelope"] = _envelope(_ref("JobAnswer"))
    components["TaskEnvelope"] = _envelope(_ref("TaskAnswer"))
    components["SearchAnswer"] = _envelope({"type": "array", "items": _ref("FoundModel")})
    components["SchemaAnswer"] = _envelope({"type": "object"})
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Penstock",
            "version": "1",
            "description": "Serverless inference for agents: OpenAI's and Workers AI's APIs.",
        },
        "paths": _paths(),
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}],
    }


@cache
def input_schema(family: Family) -> Schema:
    """Return the schema of what a model takes on `/ai/run`."""
    forms, components = msgspec.json.schema_components(
        _TAKEN[family], ref_template="#/$defs/{name}"
    )
    return {"type": "object", "oneOf": list(forms), "$defs": components}


@cache
def output_schema(family: Family) -> Schema:
    """Return the schema of what a model answers on `/ai/run`."""
    forms, components = msgspec.json.schema_components(_MADE[family], ref_template="#/$defs/{name}")
    return {"type": "object", "oneOf": list(forms), "$defs": components}


_CHAT_FORMS: Final = (schemas.RunPromptRequest, schemas.RunMessagesRequest)
_TAKEN: Final = {
    Family.OPENAI: _CHAT_FORMS,
    Family.NATIVE: _CHAT_FORMS,
    Family.RESPONSES: (api_schemas.RunInputRequest, *_CHAT_FORMS),
    Family.EMBEDDINGS: (api_schemas.RunTextRequest,),
}
_MADE: Final = {
    Family.OPENAI: (schemas.ChatCompletion,),
    Family.NATIVE: (schemas.NativeResult,),
    Family.RESPONSES: (api_schemas.Response, schemas.ChatCompletion),
    Family.EMBEDDINGS: (api_schemas.Vectors,),
}


def _paths() -> Schema:
    account = {"name": "account_id", "in": "path", "required": True, "schema": {"type": "string"}}
    model = {"name": "model", "in": "path", "required": True, "schema": {"type": "string"}}
    verbose = _query("verbose", {"type": "string"}, "Any value: `warnings` are listed too.")
    named_model = {"name": "model", "in": "query", "required": True, "schema": {"type": "string"}}
    forms = (
        "RunMessagesRequest", "RunPromptRequest", "RunInputRequest", "RunTextRequest",
        "RunQueuedRequest", "RunPollRequest",
    )  # fmt: skip
    run = {"anyOf": [_ref(form) for form in forms]}
    base = "/client/v4/accounts/{account_id}/ai"
    chat = _ref("ChatCompletionRequest")
    return {
        "/v1/chat/completions": _post("Chat", chat, _ref("ChatCompletion"), [], _V1),
        "/v1/models": _get("List models", _ref("OpenAIModelList"), [], _V1),
        "/v1/models/{model}": _get("One model", _ref("OpenAIModel"), [model], _V1),
        f"{base}/v1/chat/completions": _post(
            "Chat, as Workers AI serves it", chat, _ref("ChatCompletion"), [account], _V4
        ),
        f"{base}/v1/models": _get(
            "List models", _ref("OpenAIModelList"), [account], _V4
        ),
        f"{base}/v1/models/{{model}}": _get(
            "One model", _ref("OpenAIModel"), [account, model], _V4
        ),
        f"{base}/run/{{model}}": _post(
            "Run a model", run, _ref("RunEnvelope"), [account, model], _V4
        ),
        f"{base}/run": _post(
            "Run the model that the body names",
            _ref("RunRequest"), _ref("RunEnvelope"), [account], _V4,
        ),
        f"{base}/models/search": _get(
            "Search models", _ref("SearchAnswer"), [account], _V4
        ),
        f"{base}/models/schema": _get(
            "A model's input and output", _ref("SchemaAnswer"), [account, named_model], _V4
        ),
        **api_paths(),
        **_usage_paths(),
        **decision_paths(),
        **_job_paths(),
        **event_paths(),
        **state_paths(),
        **container_paths(),
        **_file_paths(),
        **_batch_paths(),
        f"{base}/tasks/{{id}}": _get(
            "Where a request sent with `cf-aig-async` stands", _ref("TaskEnvelope"),
            [account, {**model, "name": "id"}], _V4,
        ),
        "/v1/routing/explain": _explain(),
        "/": {"get": _open_page("That this runs, and which models; a page for browsers")},
        "/health": {"get": _open_page("Is this worker alive")},
        "/healthz": {"get": _open_page("Is this worker alive")},
        "/readyz": {"get": _open_page("Can it serve") | {"parameters": [verbose]}},
        "/openapi.json": {"get": _open_page("This description")},
    }  # fmt: skip


def _usage_paths() -> Schema:
    period = [
        _query("since", {"type": "string"}, "A date or an RFC 3339 time; 24 h before `until`."),
        _query("until", {"type": "string"}, "Up to this time, not including it; now."),
        _query(
            "limit",
            {"type": "integer", "minimum": 1, "maximum": ROWS_MAX, "default": ROWS_DEFAULT},
            "How many rows or turns, at most.",
        ),
    ]
    of_account = _query("account", {"type": "string"}, "Whose session; operators must say.")
    labels = [_query(label, {"type": "string"}, f"Only of this {label}.") for label in Label]
    grouped = _query("group_by", {"type": "string"}, f"A comma list of {', '.join(Label)}.")
    step = _query("by", {"type": "string", "enum": list(map(str, Step))}, "A row for each of them.")
    session = {"name": "session", "in": "path", "required": True, "schema": {"type": "string"}}
    request = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
    return {
        "/v1/usage": _get(
            "Usage and cost, by label and time",
            _ref("UsageAnswer"), [*period, step, grouped, *labels], _V1,
        ),
        "/v1/usage/requests/{id}": _get(
            "One request with its attempts and its charge", _ref("RequestAnswer"), [request], _V1
        ),
        "/v1/usage/sessions/{session}": _get(
            "A session's turns and how its prompt grows",
            _ref("SessionAnswer"), [session, of_account, *period], _V1,
        ),
    }  # fmt: skip


def _job_paths() -> Schema:
    job = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
    states = {"type": "string", "enum": list(map(str, JobState))}
    asked = [
        _query("state", states, "Only those in this state."),
        _query("model", {"type": "string"}, "Only those of this model, by its id."),
        _query("batch", {"type": "string"}, "Only those of this batch or `request_id`."),
        _query("account", {"type": "string"}, "Only this account's; operators see all."),
        _query("after", {"type": "string"}, "`next` of the page before."),
        _query(
            "limit",
            {"type": "integer", "minimum": 1, "maximum": JOBS_MAX, "default": JOBS_DEFAULT},
            "How many jobs, at most.",
        ),
    ]
    one = _get("One job: its state, place in line and result", _ref("JobAnswer"), [job], _V1)
    cancel = _get("Cancel a job; one that runs is stopped soon", _ref("JobAnswer"), [job], _V1)
    return {
        "/v1/jobs": _get("Queued, running and ended jobs", _ref("JobListAnswer"), asked, _V1),
        "/v1/jobs/{id}": {**one, "delete": cancel["get"]},
    }


def _file_paths() -> Schema:
    file = {"name": "file_id", "in": "path", "required": True, "schema": {"type": "string"}}
    form = {
        "type": "object",
        "properties": {
            "file": {"type": "string", "format": "binary"},
            "purpose": {"enum": list(UPLOADED)},
        },
        "required": ["file", "purpose"],
    }
    order = {"type": "string", "enum": ["asc", "desc"], "default": "desc"}
    asked = [
        *_page(10_000),
        _query("purpose", {"type": "string"}, "Only files of this purpose."),
        _query("order", order, "By the time they were made."),
    ]
    listed = _get("Files", _ref("FileList"), asked, _V1)
    one = _get("One file", _ref("FileObject"), [file], _V1)
    content = _get("What is in a file", {}, [file], _V1)
    answer = content["get"]["responses"]["200"]
    answer["content"] = {"application/octet-stream": {"schema": {"description": "Its bytes."}}}
    delete = _get("Delete a file", _ref("FileDeleted"), [file], _V1)["get"]
    return {
        "/v1/files": {
            **listed,
            "post": {
                "summary": "Upload the input file of a batch",
                "requestBody": {
                    "required": True,
                    "content": {"multipart/form-data": {"schema": form}},
                },
                "responses": _answers(_ref("FileObject"), _V1),
            },
        },
        "/v1/files/{file_id}": {**one, "delete": delete},
        "/v1/files/{file_id}/content": content,
    }


def _batch_paths() -> Schema:
    batch = {"name": "batch_id", "in": "path", "required": True, "schema": {"type": "string"}}
    answers = _answers(_ref("BatchObject"), _V1)
    body = {"required": True, "content": _content(_ref("CreateBatch"))}
    cancel = _get("Cancel what of a batch has not run", _ref("BatchObject"), [batch], _V1)
    return {
        "/v1/batches": {
            **_get("Batches, the newest first", _ref("BatchList"), _page(100), _V1),
            "post": {
                "summary": "Run a file of requests",
                "requestBody": body,
                "responses": answers,
            },
        },
        "/v1/batches/{batch_id}": _get("One batch", _ref("BatchObject"), [batch], _V1),
        "/v1/batches/{batch_id}/cancel": {"post": cancel["get"]},
    }


def _page(most: int) -> list[Schema]:
    limit = {"type": "integer", "minimum": 1, "maximum": most}
    return [
        _query("after", {"type": "string"}, "The last id of the page before."),
        _query("limit", limit, "How many, at most."),
    ]


def _explain() -> Schema:
    account = _query("account", {"type": "string"}, "Whose request it is; operators must say.")
    summary = "Where a chat request would go now, and why; nothing is sent"
    body = {"required": True, "content": _content(_ref("ChatCompletionRequest"))}
    answers = _answers(_ref("RoutingAnswer"), _V1)
    asked = {"summary": summary, "parameters": [account]}
    return {"post": {**asked, "requestBody": body, "responses": answers}}


def _query(name: str, schema: Schema, description: str) -> Schema:
    return {"name": str(name), "in": "query", "description": description, "schema": schema}


def _ref(name: str) -> Schema:
    return {"$ref": _REF.format(name=name)}


def _content(schema: Schema) -> Schema:
    return {"application/json": {"schema": schema}}


def _envelope(result: Schema) -> Schema:
    lists: Schema = {"type": "array", "items": {"type": "object"}}
    return {
        "type": "object",
        "properties": {
            "result": result,
            "success": {"type": "boolean"},
            "errors": lists,
            "messages": lists,
        },
        "required": ["result", "success", "errors", "messages"],
    }


def _answers(schema: Schema, error: str) -> Schema:
    failed = {"description": "An error; its code says which.", "content": _content(_ref(error))}
    return {
        "200": {"description": "OK", "content": _content(schema)},
        "4XX": failed,
        "5XX": failed,
    }


def _post(
    summary: str, body: Schema, answer: Schema, parameters: list[Schema], error: str
) -> Schema:
    answers = _answers(answer, error)
    answers["200"]["content"]["text/event-stream"] = {"schema": {"description": _EVENTS}}
    job = _ref("JobAnswer") if error == _V1 else {"anyOf": [_ref("JobAnswer"), _ref("JobEnvelope")]}
    later = "Queued, as `Prefer: respond-async` asks; the job is at `location`."
    answers["202"] = {"description": later, "content": _content(job)}
    return {
        "post": {
            "summary": summary,
            "parameters": parameters,
            "requestBody": {"required": True, "content": _content(body)},
            "responses": answers,
        }
    }


def _get(summary: str, answer: Schema, parameters: list[Schema], error: str) -> Schema:
    return {
        "get": {"summary": summary, "parameters": parameters, "responses": _answers(answer, error)}
    }


def _open_page(summary: str) -> Schema:
    return {
        "summary": summary,
        "security": [],
        "responses": {
            "200": {"description": "OK", "content": _content({"type": "object"})},
            "503": {"description": "Not ready", "content": _content({"type": "object"})},
        },
    }
