"""Describes one operation of administration, which HTTP serves and commands call.

A command calls the same function as the HTTP page, directly or over HTTP, so both give the same
answer and refuse the same questions.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, Literal, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from penstock.console.rooms import OperatorRooms

PREFIX = "/operator/v1"
_PATH_FIELD = re.compile(r"{(\w+)}")


class OperatorQuestion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an operation is asked: fields of the path, and of the query (GET, DELETE) or the body.

    In a query, a field that is None is left out.
    """


def given_fields(asked: OperatorQuestion) -> dict[str, Any]:
    """Return the fields that a question has, by name."""
    fields = msgspec.structs.asdict(asked)
    return {name: value for name, value in fields.items() if value is not None}


class Nothing(OperatorQuestion, frozen=True, kw_only=True):
    """The question of an operation that takes no fields."""


Asked = TypeVar("Asked", bound=OperatorQuestion)
Answered = TypeVar("Answered")


class Operation(msgspec.Struct, Generic[Asked, Answered], frozen=True, kw_only=True):
    """One operation. Only those with GET change nothing; an auditor's key may call these alone."""

    name: str
    summary: str
    method: Literal["GET", "POST", "PATCH", "DELETE"]
    # Under PREFIX; `{field}` is a field of the question.
    path: str
    question: type[Asked]
    answer: type[Answered]
    run: Callable[[OperatorRooms, Asked], Awaitable[Answered]]

    @property
    def is_reading(self) -> bool:
        return self.method == "GET"

    @property
    def has_body(self) -> bool:
        return self.method in {"POST", "PATCH"}

    @property
    def path_fields(self) -> tuple[str, ...]:
        return tuple(_PATH_FIELD.findall(self.path))


def request_for(operation: Operation[Asked, Any], asked: Asked) -> tuple[str, bytes | None]:
    """Return the target and the body of the HTTP request that asks a question."""
    fields: dict[str, Any] = msgspec.to_builtins(asked)
    path = PREFIX + operation.path
    for name in operation.path_fields:
        path = path.replace(f"{{{name}}}", quote(str(fields.pop(name)), safe=""))
    if operation.has_body:
        return path, msgspec.json.encode(fields)
    given = {name: value for name, value in fields.items() if value is not None}
    return path + (f"?{_query(given)}" if given else ""), None


def _query(fields: Mapping[str, Any]) -> str:
    def text(value: object) -> str:
        return str(value).lower() if isinstance(value, bool) else str(value)

    return urlencode({name: text(value) for name, value in fields.items()})
