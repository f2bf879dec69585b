"""Writes docs/reference/ from the code, so that it cannot drift: `make docs`. A test compares."""

import inspect
import re
import sys
from pathlib import Path
from typing import get_type_hints

import msgspec
from docs_api import anchor, api_pages, kind_of
from docs_cli import command_page
from docs_errors import error_page
from docs_pictures import pictures

from penstock.config import SECRET, Config
from penstock.fleet.settings import WantedReplicas
from penstock.ingress.pages.openapi import document
from penstock.telemetry.keeper_metrics import KEEPER_METRICS
from penstock.telemetry.metrics import METRICS
from penstock.tools.mcp_settings import McpServerSettings

REFERENCE = Path(__file__).parent / "reference"
ASSETS = Path(__file__).parent / "assets"
_FIELD = re.compile(r"^    (\w+): ")
_MADE = "<!-- Generated from the code by `make docs`. Do not edit. -->\n\n"


_HEADERS = """

## Headers that are read

| header | what it does |
|---|---|
| `x-session-affinity`, `x-session-id`, `session-id` | The conversation this request belongs to; the first one that is there counts, then `prompt_cache_key` and `conversation` in the body. |
| `x-request-id` | Your own id for the request: kept in our log line, never used as a key. |
| `x-penstock-reject-if-busy: true` | Answer 429 at once instead of waiting for a free slot; also `options.rejectIfBusy` in the body and `?rejectIfBusy=true`. |
| `Prefer: respond-async, wait=N` | Queue the request as a job (RFC 7240): the answer if it is there within N seconds (none said: 0), else 202 with the job, `location` and `retry-after`. |
| `Idempotency-Key` | On requests that are queued: the same key finds the same job or batch again, and a caller that leaves does not give it up. Up to 256 characters, of this account alone. |
| `cf-aig-async: true` | On `/ai/run`: queue the request and answer its `taskId` at once. |
| `x-penstock-workflow` | A label to see and to limit by: up to 64 letters, digits and `. _ : / -`. Else `workflow` in `cf-aig-metadata` (JSON), else in the body's `metadata`. |
| `x-penstock-max-cost-usd` | The most that this request may cost. More is refused before it runs (400 `max_cost_exceeded`); where `max_tokens` is not set, it is set to what the cap pays for. The prompt is estimated by its bytes. |
| `x-stainless-retry-count` | How often the client has tried this before (openai's SDKs send it): counted. |
| `x-penstock-cost: 1` | On a stream: say the cost in a comment (`: cost-usd 0.000123000`) before `[DONE]`. |
| `x-penstock-cost: usage` | Put the cost, in dollars, into the answer's `usage` as `cost`; on a stream where usage is reported. Not on streams of Messages. `penstock account set --usage-cost` does it for all answers of an account. |

## Headers of answers

| header | what it says |
|---|---|
| `x-request-id` | Our id of the request, on every answer; also in the log, at the engine, and in error events. |
| `cf-ai-req-id` | The same, under `/client/v4`. |
| `x-caller-request-id` | The `x-request-id` that you sent. |
| `x-penstock-trace` | The id of the request's trace, where [traces](../traces.md) are on: that of the caller's `traceparent`, if it sent one. |
| `x-penstock-replica` | The replica that answers. Absent, as are the next three, where the head of a stream had to go out before an engine had begun to answer. |
| `x-penstock-cache-expected` | Prompt tokens that were expected in that replica's cache; `usage` says how many there were. |
| `x-penstock-session-moved` | The session was not served where it was last: `load` (too much to do there), `drain` (that replica is being taken out) or `lost` (it failed, or is gone). |
| `x-penstock-cache-break` | The first part of the prompt that is not as in the session's last turn: `tools`, `system` or `message 3`, counted from 0. [What to do](../prompts-that-hit.md). |
| `x-penstock-cost-usd` | What an answer that was not streamed cost, by the catalogue's prices. |
| `x-ratelimit-limit-requests`, `-tokens`, `-usd` | The tightest hard limit of each measure that counts this request; with `x-ratelimit-remaining-…` and `x-ratelimit-reset-…`, as far as this gateway knows. |
| `x-penstock-limit-warning` | Soft limits that are passed. |
| `location` | On 202: where the job is found. |
| `preference-applied` | What of `Prefer` was honoured: `wait=N` with an answer, `respond-async` with a job. |
| `x-should-retry` | On errors: whether trying again is safe. |
| `retry-after` | On errors: seconds after which trying again makes sense; out of capacity, how long the line takes at the measured rate. On 202: when to look for the job. |

## When there is no capacity now

A model whose slots are all taken lets requests wait, in order, up to `admission.waiting_max` and
`admission.wait_seconds_max`. Whoever may not wait is answered 429 (`out_of_capacity`, 3040) with
`retry-after`. Where the model takes queued requests the error says how to send the same body there
instead: `error.async` (under `/client/v4` also `errors[0].async`) is `{"href": …, "headers": {…}}`:
`Prefer: respond-async` for chat, `?queueRequest=true` for `/ai/run`.

## Requests that are queued

| how | what is answered |
|---|---|
| `service_tier: "flex"` in a chat or `/ai/run` body | The answer in place when its job is done, streamed or not; comments hold a stream open. Whoever leaves gives the job up. |
| `Prefer: respond-async` | See above; `GET /v1/jobs/{id}` has the result. |
| `POST …/ai/run/{model}?queueRequest=true`, or `options.queueRequest` | `{"status": "queued", "request_id", "model"}` in `result`, and the same id as `taskId` beside `result`. The body is `{"requests": [...]}`, each with an `external_reference` of its own if you like, or one plain input. A wrong item fails the whole submission with 400 and its place. |
| `{"request_id": …}` to the same path, with and without the flag | `{"status": "queued" or "running", "request_id"}`; at the end `{"responses": [...], "usage"}` without a status. Items: `{id, success, external_reference, result}`, or with `error: {message, internalCode, httpCode}`. |
| `cf-aig-async: true` | `{"taskId", "status"}` in `result`, and `taskId` beside it. |
| `GET …/ai/tasks/{taskId}`, for both | `{"taskId", "status"}`; when it has succeeded also `result`: the answer, or of several requests `{"responses", "usage"}`. |

`error.code` of a job is one of [the error codes](errors.md). Queued requests cost what the model's
price book says for its flex tier. `x-request-id` is the id of the job, or of the batch.
"""  # noqa: E501 - a table's row is one line


def pages() -> dict[str, str]:
    """Every generated page by file name."""
    made = {
        "configuration.md": configuration(),
        "metrics.md": metrics(),
        "errors.md": error_page(),
        "endpoints.md": endpoints(),
        "cli.md": command_page(),
        **{f"api/{name}": text for name, text in api_pages().items()},
    }
    return {name: _MADE + text.rstrip() + "\n" for name, text in made.items()}


def configuration() -> str:
    parts = [
        "# Configuration\n",
        "One TOML file (`--config`, `PENSTOCK_CONFIG`, `./penstock.toml` or "
        "`/etc/penstock/penstock.toml`), and environment variables over it: "
        "`PENSTOCK_INGRESS_PORT=9000` sets `ingress.port`. `penstock config show` prints each "
        "value and where it came from. `PENSTOCK_URL`, `PENSTOCK_KEY` and `PENSTOCK_ACCOUNT` are "
        "no settings: [commands that are clients of a gateway](../cli.md#penstock) read them.\n",
    ]
    for room in Config.__struct_fields__:
        settings: type[msgspec.Struct] = get_type_hints(Config)[room]
        parts.append(f"## `[{room}]`\n\n{_first_line(settings)}\n")
        parts.append(_table(settings, f"{room}."))
    parts.append(f"## `[[fleet.replicas]]`\n\n{_first_line(WantedReplicas)}\n")
    parts.append(_table(WantedReplicas, ""))
    parts.append(f"## `[[tools.mcp_servers]]`\n\n{_first_line(McpServerSettings)}\n")
    parts.append(_table(McpServerSettings, ""))
    return "\n".join(parts)


def _table(settings: type[msgspec.Struct], prefix: str) -> str:
    said = _comments(settings)
    rows = ["| setting | default | what it is |", "|---|---|---|"]
    for field in msgspec.structs.fields(settings):
        name = f"{prefix}{field.name}"
        default = _default(field)
        secret = " Never printed." if name in SECRET else ""
        rows.append(f"| `{name}` | {default} | {said[field.name]}{secret} |")
    return "\n".join(rows) + "\n"


def _default(field: msgspec.structs.FieldInfo) -> str:
    value: object = field.default
    if value is msgspec.NODEFAULT:
        factory = field.default_factory
        if factory is msgspec.NODEFAULT:
            return "required"
        value = factory()
    return f"`{msgspec.json.encode(value).decode()}`"


def _comments(settings: type[msgspec.Struct]) -> dict[str, str]:
    """The comment lines right above each field."""
    said: dict[str, str] = {}
    above: list[str] = []
    for line in inspect.getsource(settings).splitlines():
        if line.startswith("    # "):
            above.append(line.removeprefix("    # "))
            continue
        field = _FIELD.match(line)
        if field and above:
            said[field.group(1)] = " ".join(above)
        above = []
    return said


def metrics() -> str:
    rows = ["| metric | what it counts |", "|---|---|"]
    rows += [f"| `{name}` | {text} |" for name, text in METRICS.items()]
    keepers = ["| metric | what it counts |", "|---|---|"]
    keepers += [f"| `{name}` | {text} |" for name, text in KEEPER_METRICS.items()]
    return (
        "# Metrics\n\n`GET /metrics` on `ingress.metrics_port`, in Prometheus' text format; all "
        "workers of a gateway added up. Labels: `model` and `account`; `outcome` on requests, "
        "`reason` (an error's code) on errors, and where it is said to be. Requests that were "
        "refused before they were understood have empty labels.\n\n"
        + "\n".join(rows)
        + "\n\n## A keeper's\n\n`GET /metrics` on `fleet.metrics_port`, of one keeper. Labels: "
        "`model` and `replica`; `outcome` on jobs, `gpu` on GPUs.\n\n" + "\n".join(keepers)
    )


def endpoints() -> str:
    rows = ["| method | path | what it does |", "|---|---|---|"]
    for path, methods in document()["paths"].items():
        for method, about in methods.items():
            place = f"api/{kind_of(path).file}#{anchor(method, path)}"
            rows.append(f"| {method.upper()} | [`{path}`]({place}) | {about['summary']} |")
    return (
        "# Endpoints and headers\n\nEach path leads to what it takes and answers, field by field; "
        "tools read the same at `/openapi.json`. Keys go in `Authorization: Bearer` or "
        "`x-api-key`. [Which API to use](../apis.md).\n\n" + "\n".join(rows) + _HEADERS
    )


def _first_line(thing: object) -> str:
    return (inspect.getdoc(thing) or "").splitlines()[0]


def main() -> None:
    for name, text in pages().items():
        (REFERENCE / name).parent.mkdir(exist_ok=True, parents=True)
        (REFERENCE / name).write_text(text)
        sys.stdout.write(f"docs/reference/{name}\n")
    for name, text in pictures().items():
        (ASSETS / name).write_text(text)
        sys.stdout.write(f"docs/assets/{name}\n")


if __name__ == "__main__":
    main()
