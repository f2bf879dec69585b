"""Describes the log of decisions for `/openapi.json`."""

from typing import Final

from penstock.ingress.pages.openapi_parts import Schema, number, operation, parameter, ref
from penstock.records.decision import DecisionKind, DecisionVerdict
from penstock.wire.resources import decisions

DECISION_TYPES: Final = (decisions.DecisionsAnswer, decisions.DecisionAnswer)


def decision_paths() -> Schema:
    asked = [
        parameter("request", "query", "Only those about this request, by its id."),
        parameter(
            "since", "query", "A date, an RFC 3339 time or an age (7d); 24 h before `until`."
        ),
        parameter("until", "query", "Up to this time, not including it; now."),
        parameter("workflow", "query", "Only of this workflow."),
        parameter("contract", "query", "Only of this contract: `name`, or `name@version`."),
        parameter("kind", "query", f"One of {', '.join(DecisionKind)}."),
        parameter("verdict", "query", f"One of {', '.join(DecisionVerdict)}."),
        parameter("account", "query", "Only of this account; operators see all."),
        parameter("actor", "query", "Only acts of this operator's key, or of `database`."),
        number("limit", decisions.ROWS_MAX),
    ]
    summary = "What contracts decided, newest first"
    answer = ref("DecisionsAnswer")
    return {
        "/v1/decisions": {"get": operation(summary, answer, "OpenAIErrorAnswer", "", asked)},
    }
