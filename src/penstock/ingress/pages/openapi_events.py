"""Describes events for `/openapi.json`: the stream, webhook endpoints, subscriptions."""

from typing import Final

from penstock.ingress.pages.openapi_parts import Schema, number, operation, parameter, ref
from penstock.wire.resources import webhooks

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
    asked = operation(summary, {}, "OpenAIErrorAnswer")
    asked["responses"]["200"]["content"] = {
        "text/event-stream": {"schema": {"description": _STREAM}}
    }
    asked["parameters"] = [
        parameter("starting_after", "query", "Go on after the event with this `id`."),
        parameter("last-event-id", "header", "The same, as clients send it by themselves."),
        parameter("account", "query", "Whose events; operators must say."),
    ]
    return asked


def _webhook_paths() -> Schema:
    path, error = "/v1/webhook_endpoints", "OpenAIErrorAnswer"
    one, answer = [parameter("id", "path", "The endpoint.")], ref("WebhookEndpoint")
    page = [
        parameter("after", "query", "The last id of the page before."),
        number("limit", 100),
    ]

    def about(summary: str, shown: Schema, body: str = "") -> Schema:
        return operation(summary, shown, error, body, one)

    return {
        path: {
            "get": operation(
                "Webhook endpoints, the newest first", ref("WebhookEndpointList"), error, "", page
            ),
            "post": operation(
                "Add a webhook endpoint; its signing secret is shown once",
                answer, error, "CreateWebhookEndpoint",
            ),
        },
        f"{path}/{{id}}": {
            "get": about("One webhook endpoint", answer),
            "post": about("Change a webhook endpoint", answer, "UpdateWebhookEndpoint"),
            "delete": about("Delete a webhook endpoint", ref("WebhookEndpointDeleted")),
        },
        f"{path}/{{id}}/rotate_secret": {
            "post": about("Give it a new signing secret", answer, "RotateSecret")
        },
        f"{path}/{{id}}/test": {
            "post": about(
                "Send it an event that never happened",
                ref("WebhookEndpointTested"), "TestWebhookEndpoint",
            )
        },
        "/v1/webhook_event_types": {
            "get": operation("Types of events there are", ref("KnownEvents"), error)
        },
    }  # fmt: skip


def _subscription_paths() -> Schema:
    path, error = f"{_ACCOUNT}/event_subscriptions/subscriptions", "EnvelopeErrorAnswer"
    account = [parameter("account_id", "path", "The key's own account.")]
    one = [*account, parameter("id", "path", "The subscription.")]
    page = [*account, *(number(name, 1000) for name in ("page", "per_page"))]
    answer, many = (
        _enveloped(ref("Subscription")),
        {"type": "array", "items": ref("Subscription")},
    )
    return {
        path: {
            "get": operation("Event subscriptions", _enveloped(many), error, "", page),
            "post": operation(
                "Subscribe a webhook to a model's batches; its signing secret is shown once",
                answer, error, "CreateSubscription", account,
            ),
        },
        f"{path}/{{id}}": {
            "get": operation("One subscription", answer, error, "", one),
            "patch": operation("Change a subscription", answer, error, "UpdateSubscription", one),
            "delete": operation("Delete a subscription", answer, error, "", one),
        },
    }  # fmt: skip


def _enveloped(result: Schema) -> Schema:
    lists: Schema = {"type": "array", "items": {"type": "object"}}
    parts = {"result": result, "success": {"type": "boolean"}, "errors": lists, "messages": lists}
    return {"type": "object", "properties": parts, "required": list(parts)}
