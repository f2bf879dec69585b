"""Describes events for `/openapi.json`: the stream, webhook endpoints, subscriptions."""

from typing import Any, Final

from penstock.wire.resources import webhooks

Schema = dict[str, Any]

EVENT_TYPES: Final = (
    webhooks.CreateWebhookEndpoint, webhooks.UpdateWebhookEndpoint, webhooks.RotateSecret,
    webhooks.TestWebhookEndpoint, webhooks.WebhookEndpoint, webhooks.WebhookEndpointList,
    webhooks.WebhookEndpointDeleted, webhooks.WebhookEndpointTested, webhooks.KnownEvents,
    webhooks.CreateSubscription, webhooks.UpdateSubscription, webhooks.Subscription,
    webhooks.LoggedEvent,
)  # fmt: skip
_ACCOUNT: Final = "/client/v4/accounts/{account_id}"
_STREAM: Final = (
    "Server-sent events without an end: `id` is the event's place in the log, `event` its type,"
    " `data` a LoggedEvent as JSON; comments keep the connection alive."
)


def event_paths() -> Schema:
    return {
        "/v1/events": {"get": _stream()},
        **_webhook_paths(),
        **_subscription_paths(),
    }


def _stream() -> Schema:
    summary = "What happens to the account's work, as it happens, from any place on"
    asked = _operation(summary, {}, "OpenAIErrorAnswer")
    asked["responses"]["200"]["content"] = {
        "text/event-stream": {"schema": {"description": _STREAM}}
    }
    asked["parameters"] = [
        _parameter("starting_after", "query", "Go on after the event with this `id`."),
        _parameter("last-event-id", "header", "The same, as clients send it by themselves."),
        _parameter("account", "query", "Whose events; operators must say."),
    ]
    return asked


def _webhook_paths() -> Schema:
    path, error = "/v1/webhook_endpoints", "OpenAIErrorAnswer"
    one, answer = [_parameter("id", "path", "The endpoint.")], _ref("WebhookEndpoint")
    page = [
        _parameter("after", "query", "The last id of the page before."),
        _number("limit", 100),
    ]

    def about(summary: str, shown: Schema, body: str = "") -> Schema:
        return _operation(summary, shown, error, body, one)

    return {
        path: {
            "get": _operation(
                "Webhook endpoints, the newest first", _ref("WebhookEndpointList"), error, "", page
            ),
            "post": _operation(
                "Add a webhook endpoint; its signing secret is shown once",
                answer, error, "CreateWebhookEndpoint",
            ),
        },
        f"{path}/{{id}}": {
            "get": about("One webhook endpoint", answer),
            "post": about("Change a webhook endpoint", answer, "UpdateWebhookEndpoint"),
            "delete": about("Delete a webhook endpoint", _ref("WebhookEndpointDeleted")),
        },
        f"{path}/{{id}}/rotate_secret": {
            "post": about("Give it a new signing secret", answer, "RotateSecret")
        },
        f"{path}/{{id}}/test": {
            "post": about(
                "Send it an event that never happened",
                _ref("WebhookEndpointTested"), "TestWebhookEndpoint",
            )
        },
        "/v1/webhook_event_types": {
            "get": _operation("Types of events there are", _ref("KnownEvents"), error)
        },
    }  # fmt: skip


def _subscription_paths() -> Schema:
    path, error = f"{_ACCOUNT}/event_subscriptions/subscriptions", "EnvelopeErrorAnswer"
    account = [_parameter("account_id", "path", "The key's own account.")]
    one = [*account, _parameter("id", "path", "The subscription.")]
    page = [*account, *(_number(name, 1000) for name in ("page", "per_page"))]
    answer, many = (
        _enveloped(_ref("Subscription")),
        {"type": "array", "items": _ref("Subscription")},
    )
    return {
        path: {
            "get": _operation("Event subscriptions", _enveloped(many), error, "", page),
            "post": _operation(
                "Subscribe a webhook to a model's batches; its signing secret is shown once",
                answer, error, "CreateSubscription", account,
            ),
        },
        f"{path}/{{id}}": {
            "get": _operation("One subscription", answer, error, "", one),
            "patch": _operation("Change a subscription", answer, error, "UpdateSubscription", one),
            "delete": _operation("Delete a subscription", answer, error, "", one),
        },
    }  # fmt: skip


def _operation(
    summary: str, answer: Schema, error: str, body: str = "", parameters: list[Schema] | None = None
) -> Schema:
    failed = {"description": "An error; its code says which.", "content": _content(_ref(error))}
    responses = {"200": {"description": "OK", "content": _content(answer)}}
    operation: Schema = {
        "summary": summary,
        "parameters": parameters or [],
        "responses": {**responses, "4XX": failed, "5XX": failed},
    }
    if body:
        operation["requestBody"] = {"required": True, "content": _content(_ref(body))}
    return operation


def _enveloped(result: Schema) -> Schema:
    lists: Schema = {"type": "array", "items": {"type": "object"}}
    parts = {"result": result, "success": {"type": "boolean"}, "errors": lists, "messages": lists}
    return {"type": "object", "properties": parts, "required": list(parts)}


def _parameter(name: str, place: str, description: str) -> Schema:
    is_path = place == "path"
    return {
        "name": name,
        "in": place,
        "required": is_path,
        "description": description,
        "schema": {"type": "string"},
    }


def _number(name: str, most: int) -> Schema:
    schema = {"type": "integer", "minimum": 1, "maximum": most}
    return {**_parameter(name, "query", "Which part of the list."), "schema": schema}


def _content(schema: Schema) -> Schema:
    return {"application/json": {"schema": schema}}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}
