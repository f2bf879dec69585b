"""Calls operations of the operator's API with a plausible question."""

from typing import Any

import msgspec
from tests.integration.cells.control_process import ControlProcess

from penstock.console.operation import Operation

NOBODY = "0" * 32
# A value for each field that a question requires, so that only the key decides.
_FIELDS: dict[str, Any] = {
    "account": NOBODY,
    "amounts": [{"measure": "requests", "period": "day", "amount": 1}],
    "documents": ['schema = 1\nname = "w"\n'],
    "deployments": {"chat": {"model": "kimi-k2.5"}},
    "holder": "00000000-0000-7000-8000-000000000001",
    "host": "nohost",
    "hour": "2026-11-01T00:00:00Z",
    "id": "00000000-0000-7000-8000-000000000001",
    "day": "2026-11-01",
    "keep": "long",
    "key": "nokey",
    "limit": 1,
    "model": "kimi-k2.5",
    "name": "somebody",
    "number": 0,
    "replica": "noreplica",
    "replicas": {"min": 1, "max": 1},
    "session": "s",
}


def call(control: ControlProcess, secret: str, operation: Operation[Any, Any]) -> tuple[int, Any]:
    """Call an operation with a plausible question."""
    needed = [each.name for each in msgspec.structs.fields(operation.question) if each.required]
    fields = {name: _FIELDS[name] for name in needed}
    path = operation.path.format(**{name: fields.pop(name) for name in operation.path_fields})
    with control.client(secret) as client:
        if operation.has_body:
            answer = client.request(operation.method, path, json=fields)
        else:
            answer = client.request(operation.method, path, params=fields)
    return answer.status_code, answer.json()
