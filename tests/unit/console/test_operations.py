"""Operations of administration: named once, documented, and asked over HTTP as they are meant."""

import re
from pathlib import Path

import msgspec
import pytest

from penstock.console.account_operations import CHANGE_ACCOUNT, AccountChange
from penstock.console.flex_operations import CHANGE_FLEX, FlexChange
from penstock.console.job_operations import LIST_JOBS, SHOW_JOB, JobFilters, JobNamed
from penstock.console.operation import PREFIX, request_for
from penstock.console.operations import OPERATIONS
from penstock.console.operator_openapi import document
from penstock.records.job import JobState

PAGE = (Path(__file__).parents[3] / "docs" / "operators-api.md").read_text()


def test_every_operation_is_on_the_page_in_its_own_words() -> None:
    rows = re.findall(r"^\| `(\w+) (/operator\S*)` \| (.*) \|$", PAGE, re.MULTILINE)
    said = [(each.method, PREFIX + each.path, each.summary) for each in OPERATIONS]
    assert rows == said


def test_names_and_places_are_unique() -> None:
    assert len({each.name for each in OPERATIONS}) == len(OPERATIONS)
    assert len({(each.method, each.path) for each in OPERATIONS}) == len(OPERATIONS)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
def test_path_has_only_fields_of_the_question(operation: object) -> None:
    assert isinstance(operation, type(OPERATIONS[0]))
    fields = {each.name: each for each in msgspec.structs.fields(operation.question)}
    assert all(fields[name].required for name in operation.path_fields)


def test_description_has_every_operation_and_refers_to_what_is_there() -> None:
    described = document()
    names = [each["operationId"] for path in described["paths"].values() for each in path.values()]
    assert sorted(names) == sorted(each.name for each in OPERATIONS)
    text = msgspec.json.encode(described).decode()
    refs = set(re.findall(r'"#/components/schemas/(\w+)"', text))
    assert refs <= set(described["components"]["schemas"])


def test_question_is_written_as_a_request() -> None:
    assert request_for(SHOW_JOB, JobNamed(id="a/b c")) == (f"{PREFIX}/jobs/a%2Fb%20c", None)
    asked = JobFilters(state=JobState.QUEUED, limit=5)
    assert request_for(LIST_JOBS, asked) == (f"{PREFIX}/jobs?state=queued&limit=5", None)
    path, body = request_for(CHANGE_ACCOUNT, AccountChange(account="Team A", is_blocked=True))
    assert path == f"{PREFIX}/accounts/Team%20A"
    assert body is not None
    assert msgspec.json.decode(body)["is_blocked"] is True


def test_a_limit_that_is_removed_differs_from_one_that_is_not_named() -> None:
    removed = request_for(CHANGE_FLEX, FlexChange(model="m", in_flight_max=None))[1]
    unnamed = request_for(CHANGE_FLEX, FlexChange(model="m", is_paused=True))[1]
    assert removed == b'{"model":"m","in_flight_max":null}'
    assert unnamed == b'{"model":"m","is_paused":true}'
