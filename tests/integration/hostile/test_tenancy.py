"""Every path of the API, called by those who may not: no account sees or changes another's.

The paths are those that the gateway itself describes, so a new one is tested with the others.
"""

from collections.abc import Iterator
from urllib.parse import urlencode

import msgspec
import pytest
from tests.integration.cells.batch_cell import QUICK
from tests.integration.cells.gateway_cell import CHAT, Cell, CellFactory
from tests.integration.cells.imitated_sandbox import TOKEN, ImitatedSandbox
from tests.integration.cells.job_runner import JobRunner
from tests.integration.hostile.tenancy_calls import (
    Answered,
    Operation,
    call,
    operations,
    post,
    target,
)
from tests.integration.hostile.tenancy_objects import Objects, make_objects

_PATHS_MIN = 42
_AI = "/client/v4/accounts/{account_id}/ai"
_PUBLIC = {"GET /", "GET /health", "GET /healthz", "GET /readyz", "GET /openapi.json"}
# Operator keys see all of these, administer, and infer nothing: everything else is refused them.
_OPERATORS = {
    *_PUBLIC, "GET /v1/usage", "GET /v1/usage/requests/{id}", "GET /v1/usage/sessions/{session}",
    "GET /v1/jobs", "GET /v1/jobs/{id}", "DELETE /v1/jobs/{id}", "GET /v1/events",
    "GET /v1/decisions", "POST /v1/routing/explain", "GET /v1/models", "GET /v1/models/{model}",
    *(f"GET {_AI}/{page}" for page in ("v1/models", "v1/models/{model}")),
    *(f"GET {_AI}/models/{page}" for page in ("search", "schema")),
}  # fmt: skip
# What the query must have besides `account`.
_QUERIES = {
    "GET /v1/events": {"starting_after": "0"},
    f"GET {_AI}/models/schema": {"model": CHAT},
}


class Tenants(msgspec.Struct, frozen=True):
    """The cell's own account has everything; `stranger` is another account with a key."""

    cell: Cell
    objects: Objects
    stranger: str
    stranger_key: str

    def as_stranger(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.stranger_key}"}

    def secrets_in(self, answer: Answered, path: str = "") -> list[str]:
        """What the answer shows of the owner's, and the caller did not name itself."""
        shown = [secret for secret in self.objects.secrets if secret in answer.text]
        return [secret for secret in shown if secret not in path]


@pytest.fixture(scope="module")
def tenants(cells: CellFactory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenants]:
    token = tmp_path_factory.mktemp("token") / "token"
    token.write_text(TOKEN)
    settings = {
        "ingress.job_poll_seconds": 0.05,
        "metering.drain_seconds": 0.05,
        "events.poll_seconds": 0.02,
        "tools.sandbox_token_file": str(token),
        "tools.allow_shared_kernel": True,
    }
    with (
        ImitatedSandbox() as host,
        cells.open({**QUICK, **settings, "tools.sandbox_hosts": [host.url]}) as cell,
    ):
        engine = cell.set_up(CHAT)
        with JobRunner(cell, engine.url) as runner:
            objects = make_objects(cell, runner)
            stranger, _, key = cell.add_account("stranger")
            yield Tenants(cell, objects, stranger, key)


@pytest.fixture
def every(tenants: Tenants) -> list[Operation]:
    found = operations(tenants.cell)
    print(f"{len({each.path for each in found})} paths, {len(found)} operations")
    assert len({each.path for each in found}) >= _PATHS_MIN
    return found


def test_the_owner_sees_every_object(tenants: Tenants, every: list[Operation]) -> None:
    """So what others are refused below is there."""
    seen = _seen_by_owner(tenants, every)
    assert {name: got.status for name, got in seen.items() if got.status != 200} == {}
    assert [name for name, got in seen.items() if not tenants.secrets_in(got)] == []


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer nobody"}], ids=["no", "unknown"])
def test_without_a_key_every_path_is_refused(
    tenants: Tenants, every: list[Operation], headers: dict[str, str]
) -> None:
    answers = {
        each.name: call(tenants.cell, each, _target(tenants, each), headers)
        for each in every
        if each.name not in _PUBLIC
    }
    assert {name: got.status for name, got in answers.items() if got.status != 401} == {}
    assert [name for name, got in answers.items() if tenants.secrets_in(got)] == []


def test_a_key_of_another_account_sees_and_changes_nothing(
    tenants: Tenants, every: list[Operation]
) -> None:
    before = _bodies(_seen_by_owner(tenants, every))
    open_to_stranger, shown = [], []
    for operation in every:
        for path, must_refuse in _tries(tenants, operation):
            answer = call(tenants.cell, operation, path, tenants.as_stranger())
            tried = f"{answer.status} {operation.method} {path}"
            assert answer.status < 500, tried
            if must_refuse and answer.status not in (403, 404):
                open_to_stranger.append(tried)
            if secrets := tenants.secrets_in(answer, path):
                shown.append((tried, secrets))
    assert open_to_stranger == []
    assert shown == []
    assert _bodies(_seen_by_owner(tenants, every)) == before


def test_ids_of_another_account_in_bodies_lead_nowhere(tenants: Tenants) -> None:
    cell, ids, headers = tenants.cell, tenants.objects.by_path, tenants.as_stranger()
    batch = {
        "input_file_id": ids["input"], "endpoint": "/v1/chat/completions",
        "completion_window": "24h",
    }  # fmt: skip
    own = f"/client/v4/accounts/{tenants.stranger}/ai/run/{CHAT}?queueRequest=true"
    answers = {
        "file of a batch": post(cell, "/v1/batches", batch, headers),
        "queued request": post(cell, own, {"request_id": ids["queued"]}, headers),
        "job as a queued request": post(cell, own, {"request_id": ids["/v1/jobs/{id}"]}, headers),
    }
    assert {name: got.status for name, got in answers.items() if got.status != 404} == {}
    assert [name for name, got in answers.items() if tenants.secrets_in(got)] == []


def test_operators_see_all_and_infer_nothing(tenants: Tenants, every: list[Operation]) -> None:
    """Last: an operator may cancel a job."""
    headers = {"authorization": f"Bearer {tenants.cell.operator_key}"}
    statuses = {}
    for operation in every:
        path = _target(tenants, operation)
        named = {"account": tenants.cell.account} if operation.has_account_query else {}
        path = _with_query(path, operation, named)
        statuses[operation.name] = call(tenants.cell, operation, path, headers).status
    expected = {name: 200 if name in _OPERATORS else 403 for name in statuses}
    wrong = {name: got for name, got in statuses.items() if got != expected[name]}
    assert wrong == {}


def _tries(tenants: Tenants, operation: Operation) -> Iterator[tuple[str, bool]]:
    """Paths that a stranger may try, and whether each names what is not the stranger's."""
    account = tenants.cell.account
    if "{account_id}" in operation.path:
        yield target(operation, account, tenants.objects), True
    path = target(operation, tenants.stranger, tenants.objects)
    # A session is a name that the caller chose: the stranger may have one of the same name.
    must_refuse = operation.names_object and not operation.path.endswith("{session}")
    yield _with_query(path, operation, {}), must_refuse
    if operation.has_account_query:
        yield _with_query(path, operation, {"account": account}), True


def _with_query(path: str, operation: Operation, named: dict[str, str]) -> str:
    query = urlencode({**_QUERIES.get(operation.name, {}), **named})
    return f"{path}?{query}" if query else path


def _target(tenants: Tenants, operation: Operation) -> str:
    return target(operation, tenants.cell.account, tenants.objects)


def _seen_by_owner(tenants: Tenants, every: list[Operation]) -> dict[str, Answered]:
    """Each object, also those that wait to be cancelled, as its owner gets it."""
    cell = tenants.cell
    reads = {
        each.name: (each, _target(tenants, each))
        for each in every
        if each.method == "GET" and each.names_object
    }
    for name, read in (
        ("DELETE /v1/jobs/{id}", "GET /v1/jobs/{id}"),
        ("POST /v1/batches/{batch_id}/cancel", "GET /v1/batches/{batch_id}"),
    ):
        shows, _ = reads[read]
        path = shows.path.partition("{")[0] + tenants.objects.by_path[name]
        reads[name] = shows, path
    return {
        name: call(cell, operation, path, cell.authorization())
        for name, (operation, path) in reads.items()
    }


def _bodies(seen: dict[str, Answered]) -> dict[str, str]:
    return {name: got.body for name, got in seen.items()}
