"""Contracts and requests that are served in other ways: turns with tools, queued lists, polls."""

from typing import Any

import msgspec
import pytest
from msgspec import Raw
from tests.unit.contracts.contract_readers import contract_reader
from tests.unit.contracts.contract_samples import (
    ACME,
    CATALOGUE,
    KEY,
    MODELS,
    TOP,
    contract_set,
    function,
    user,
)

from penstock.clock import new_id
from penstock.contracts.cases import Case, Expected
from penstock.errors import ModelNotAllowed, PromptOverContract
from penstock.intake.caller_headers import CallerHeaders
from penstock.intake.contract_cases import run_case
from penstock.intake.opened_request import OpenedRequest
from penstock.intake.routes import RequestRoute, Surface, Wanted, find_route
from penstock.records.account import Key, KeyId, Role
from penstock.records.price import Tier
from penstock.records.request import Api, RequestId

RESPONSES = b"/v1/responses"
RUN = b"/client/v4/accounts/acme/ai/run"
BOUND = Key(KeyId("k2"), Role.RUNTIME, ACME, workflow="code-review")
HEADERS = CallerHeaders([(b"x-penstock-workflow", b"code-review")])
NO_HEADERS = CallerHeaders([])
CODE = {"type": "code_interpreter", "container": {"type": "auto"}}


def opened(contract: str, path: bytes, body: dict[str, Any], key: Key = KEY) -> OpenedRequest:
    made = contract_reader(contract, has_server_tools=True)
    return made.open(find_route(path), HEADERS, key, msgspec.json.encode(body))


@pytest.mark.parametrize(
    ("given", "mode", "bound", "effects"),
    [
        # Each question to the model would have the default length, and there may be many.
        ({}, "enforce", 9000, ["output=9000"]),
        ({}, "observe", None, ["output=9000"]),
        ({"max_output_tokens": 20_000}, "enforce", 9000, ["output=9000"]),
        ({"max_output_tokens": 5000}, "enforce", 5000, []),
    ],
)
def test_a_response_with_tools_is_bounded_as_a_whole(
    given: dict[str, int], mode: str, bound: int | None, effects: list[str]
) -> None:
    text = f'{TOP}mode = "{mode}"\noutput = {{ tokens_max = 9000 }}'
    body = {"model": "big", "input": "hi", "tools": [CODE], "store": False, **given}
    found = opened(text, RESPONSES, body)
    assert (found.tools is None, found.contract is None) == (False, False)
    raw = found.fields.get("max_output_tokens")
    assert (None if raw is None else msgspec.json.decode(raw)) == bound
    assert found.contract is not None
    assert [str(each) for each in found.contract.effects] == effects
    assert found.contract.is_length_open is (bound == 9000 and not given)


def test_a_response_without_tools_keeps_the_default_length() -> None:
    text = f"{TOP}output = {{ tokens_max = 9000 }}"
    found = opened(text, RESPONSES, {"model": "big", "input": "hi", "store": False})
    assert "max_output_tokens" not in found.fields


def test_an_item_of_a_bound_keys_list_has_the_keys_workflow() -> None:
    item = {"messages": [user("hi")], "metadata": {"workflow": "another"}}
    made = contract_reader(TOP)
    body = msgspec.json.encode({"requests": [item]})
    whole = made.open(find_route(RUN + b"/@cf/x/big"), NO_HEADERS, BOUND, body)
    fields = {name: Raw(msgspec.json.encode(value)) for name, value in item.items()}
    own = whole.with_fields(fields)
    request = made.read_prompt(RequestId(new_id()), NO_HEADERS, own, Tier.FLEX)
    assert (request.labels.workflow, request.labels.contract) == ("code-review", "code-review@7")


@pytest.mark.parametrize(
    "text", [f"{TOP}{MODELS}", f"{TOP}accounts = ['beta']\n{MODELS}asked = 'override'"]
)
def test_no_contract_refuses_to_hand_over_what_was_queued(text: str) -> None:
    path = RUN + b"/@cf/x/other"
    polled = opened(text, path, {"request_id": "0" * 8})
    assert (polled.model.id, polled.contract) == ("@cf/x/other", None)


def test_a_prompt_that_is_too_long_may_be_counted() -> None:
    made = contract_reader(f"{TOP}prompt = {{ tokens_max = 10 }}")
    body = msgspec.json.encode({"model": "big", "messages": [user("word " * 100)], "max_tokens": 1})
    id = RequestId(new_id())
    counted = RequestRoute(Surface.OPENAI, Api.MESSAGES, wanted=Wanted.COUNT)
    assert made.read(id, counted, HEADERS, KEY, body).terms.prompt_tokens_estimate > 10
    with pytest.raises(PromptOverContract):
        made.read(id, RequestRoute(Surface.OPENAI, Api.MESSAGES), HEADERS, KEY, body)


@pytest.mark.parametrize("more", [{}, {"request_id": None}])
def test_what_is_not_a_poll_is_refused(more: dict[str, Any]) -> None:
    body = {"messages": [user("hi")], **more}
    with pytest.raises(ModelNotAllowed):
        opened(f"{TOP}{MODELS}", RUN + b"/@cf/x/other", body)


def test_a_case_is_refused_where_its_model_lacks_what_it_needs() -> None:
    body = {"model": "small", "messages": [user("hi")], "tools": [function("edit")]}
    expect = Expected(error="missing_capability")
    case = Case(name="tools", workflow="code-review", account="acme", body=body, expect=expect)
    assert run_case(case, contract_set(f"{TOP}{MODELS}"), CATALOGUE, 4).differs == {}
