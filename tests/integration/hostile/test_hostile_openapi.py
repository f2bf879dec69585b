"""What `/openapi.json` says is true: schemathesis asks for all of it, rightly and wrongly.

Every answer must have a status, a media type and a shape that the description gives.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case, GenerationMode, checks
from schemathesis.core.result import Ok
from schemathesis.schemas import APIOperation
from tests.integration.cells.gateway_cell import CHAT, NATIVE, CellFactory
from tests.integration.cells.imitated_sandbox import ImitatedSandbox, sandbox_settings
from tests.integration.hostile.hostile_cell import HostileCell, hostile_cell

Operation = APIOperation[Any, Any, Any, Any]

# Of each operation; with --full the second.
_EXAMPLES, _EXAMPLES_FULL = 10, 60
_CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]
_ENGINE_CODES = {"engine_failed", "engine_lost"}
# Answers that do not end; tests of their own read them.
_ENDLESS = {"/v1/events"}
# What an engine answers; other bodies are about files, webhooks and the like.
_ENGINE_PATHS = ("/chat/completions", "/ai/run", "/routing/explain")


@pytest.fixture(scope="module")
def hostile(cells: CellFactory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostileCell]:
    with ImitatedSandbox(containers_max=100_000) as sandbox:
        tools = sandbox_settings(tmp_path_factory.mktemp("sandbox"), sandbox)
        tools["tools.containers_per_account_max"] = 10_000
        with hostile_cell(cells, tools) as hostile:
            yield hostile


@pytest.fixture(scope="module")
def session(hostile: HostileCell) -> Iterator[requests.Session]:
    with requests.Session() as session:
        session.trust_env = False
        session.headers.update(hostile.cell.authorization())
        yield session


def _operations(hostile: HostileCell) -> list[Operation]:
    schema = schemathesis.openapi.from_url(f"{hostile.cell.gateway.url}/openapi.json")
    found = list(schema.get_all_operations())
    operations = [operation.ok() for operation in found if isinstance(operation, Ok)]
    assert len(operations) == len(found)
    return [operation for operation in operations if operation.path not in _ENDLESS]


def _takes_nothing(operation: Operation) -> bool:
    """Such as /healthz: there is nothing in it that could be wrong."""
    return not operation.body and not list(operation.iter_parameters())


@pytest.fixture
def examples(full: bool) -> int:
    return _EXAMPLES_FULL if full else _EXAMPLES


def _as_a_client_would(value: Any) -> Any:
    """Take out what the gateway refuses and a schema cannot say, so that an engine answers.

    Addresses of images that were made up, options of a stream without a stream, and 1.0 where
    1 is meant: JSON Schema counts it as an integer, and no client writes it.
    """
    if isinstance(value, list):
        parts = [part for part in value if not isinstance(part, dict) or "image_url" not in part]
        return [_as_a_client_would(part) for part in parts]
    if isinstance(value, dict):
        unfit = set() if value.get("stream") else {"stream_options"}
        return {name: _as_a_client_would(value[name]) for name in value.keys() - unfit}
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _ask(
    hostile: HostileCell,
    session: requests.Session,
    operation: Operation,
    mode: GenerationMode,
    known: dict[str, str],
    examples: int,
) -> Counter[int]:
    """How often each status was answered. `known` is put in place of what would be made up."""
    statuses: Counter[int] = Counter()
    names = {parameter.name for parameter in operation.path_parameters}
    paths = {name: value for name, value in known.items() if name in names}

    def known_in(fields: dict[str, Any]) -> dict[str, str]:
        return {name: value for name, value in known.items() if name in fields}

    @settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode, path_parameters=paths or None))
    def ask(case: Case[Any]) -> None:
        for given_fields in (case.body, case.query):
            if isinstance(given_fields, dict):
                given_fields.update(known_in(given_fields))
        if known:
            case.body = _as_a_client_would(case.body)
        answer = case.call(session=session, headers=hostile.cell.authorization(), timeout=20)
        statuses[answer.status_code] += 1
        if answer.status_code >= 500 and answer.json()["error"]["code"] in _ENGINE_CODES:
            # The scripted engine takes less than the description promises of real ones.
            return
        case.validate_response(answer, checks=_CHECKS)

    ask()
    return statuses


@pytest.mark.timeout(400)
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_the_description_is_true_of_anything(
    hostile: HostileCell, session: requests.Session, mode: GenerationMode, examples: int
) -> None:
    statuses: Counter[int] = Counter()
    for operation in _operations(hostile):
        if mode is GenerationMode.POSITIVE or not _takes_nothing(operation):
            statuses += _ask(hostile, session, operation, mode, {}, examples)
    assert statuses.total() > 8 * examples
    assert statuses.keys() <= {200, 400, 401, 403, 404, 405}, statuses


@pytest.mark.timeout(400)
@pytest.mark.parametrize("model", [CHAT, NATIVE])
def test_the_description_is_true_of_what_an_engine_answers(
    hostile: HostileCell, session: requests.Session, model: str, examples: int
) -> None:
    account = hostile.cell.account
    known = {"account_id": account, "account": account, "model": model}
    served = 0
    for operation in _operations(hostile):
        if operation.body and any(part in operation.path for part in _ENGINE_PATHS):
            statuses = _ask(hostile, session, operation, GenerationMode.POSITIVE, known, examples)
            assert statuses[200], (operation.label, statuses)
            served += statuses[200]
    assert served > 2 * examples


def test_what_the_description_allows_leaves_the_gateway_as_it_was(
    hostile: HostileCell, session: requests.Session
) -> None:
    session.close()
    hostile.check_aftermath()
