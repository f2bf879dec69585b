"""A contract chooses the model and lowers bounds in every API; observing changes nothing."""

from typing import Any

import msgspec
import pytest
from tests.unit.contracts.contract_readers import contract_reader
from tests.unit.intake.read_samples import ACME, ALL, HELLO, KEY, model

from penstock.catalogue import Catalogue
from penstock.clock import new_id
from penstock.contracts.deciding import ContractDecision
from penstock.errors import (
    CostCapped,
    Error,
    InvalidRequest,
    ModelNotAllowed,
    PromptOverContract,
    UnknownModel,
    WorkflowNotAllowed,
)
from penstock.intake.caller_headers import CallerHeaders
from penstock.intake.request_reader import RequestReader
from penstock.intake.routes import find_route
from penstock.records.account import Key, KeyId, Role
from penstock.records.model import Family
from penstock.records.price import Prices
from penstock.records.request import Api, InferenceRequest, RequestId

CHAT = b"/v1/chat/completions"
COMPLETIONS = b"/v1/completions"
MESSAGES = b"/v1/messages"
RESPONSES = b"/v1/responses"
RUN = b"/client/v4/accounts/acme/ai/run"
INPUT = {"input": "hi", "store": False}
PROMPT = {"prompt": "hi"}
TOP = 'schema = 1\nname = "w"\n'
CAPPED = "output = { tokens_max = 100 }"
REQUEST = RequestId(new_id())
BOUND = Key(KeyId("k2"), Role.RUNTIME, ACME, workflow="w")

# A dollar buys a million tokens of output.
DOLLAR = (Prices(output_nanousd_per_mtok=10**9),)
MODELS = [
    msgspec.structs.replace(each, context_tokens=50_000, prices=DOLLAR, aliases=(each.id[6:],))
    for each in (
        model("@cf/x/full", Family.OPENAI, *ALL),
        model("@cf/x/native", Family.NATIVE, *ALL),
        msgspec.structs.replace(model("@cf/x/composed", Family.OPENAI, *ALL), responses="chat"),
        model("@cf/x/small", Family.OPENAI),
        model("@cf/x/vectors", Family.EMBEDDINGS),
    )
]
CATALOGUE = Catalogue(MODELS)


def reader(*contracts: str) -> RequestReader:
    return contract_reader(*(TOP + text for text in contracts), catalogue=CATALOGUE)


class Read:
    """A request that was read, with what its contract decided."""

    def __init__(self, request: InferenceRequest, decision: ContractDecision | None) -> None:
        self.request = request
        self.body = {name: bytes(value) for name, value in request.prompt.body.items()}
        self.effects = [] if decision is None else [str(each) for each in decision.effects]

    def has(self, name: str) -> Any:
        return msgspec.json.decode(self.body[name]) if name in self.body else None


def read(
    made: RequestReader,
    path: bytes,
    body: dict[str, Any],
    *,
    key: Key = KEY,
    **headers: bytes,
) -> Read:
    given = {"x_penstock_workflow": b"w", **headers}
    caller = CallerHeaders([(name.replace("_", "-").encode(), v) for name, v in given.items() if v])
    raw = msgspec.json.encode({"model": "full", **body})
    opened = made.open(find_route(path), caller, key, raw)
    return Read(made.read_prompt(REQUEST, caller, opened), opened.contract)


NATIVE = RUN + b"/@cf/x/native"
OPENAI = RUN + b"/@cf/x/full"


@pytest.mark.parametrize(
    ("path", "body", "sent"),
    [
        (CHAT, {**HELLO, "max_tokens": 5000}, {"max_tokens": 100}),
        (CHAT, {**HELLO, "max_completion_tokens": 5000}, {"max_completion_tokens": 100}),
        (CHAT, {**HELLO, "max_tokens": 5000, "max_completion_tokens": 6000},
         {"max_completion_tokens": 100}),
        (CHAT, {**HELLO, "max_tokens": 1, "max_completion_tokens": 6000},
         {"max_completion_tokens": 100}),
        (CHAT, {**HELLO, "max_tokens": 5000, "max_completion_tokens": None}, {"max_tokens": 100}),
        (CHAT, HELLO, {"max_tokens": 100}),
        (COMPLETIONS, {**PROMPT, "max_tokens": 5000}, {"max_tokens": 100}),
        (COMPLETIONS, PROMPT, {"max_tokens": 100}),
        # A field of another API does not take the bound away.
        (COMPLETIONS, {**PROMPT, "max_tokens": 5000, "max_completion_tokens": 1},
         {"max_tokens": 100}),
        (MESSAGES, {**HELLO, "max_tokens": 5000}, {"max_tokens": 100}),
        (MESSAGES, {**HELLO, "max_tokens": 5000, "max_completion_tokens": 1}, {"max_tokens": 100}),
        (RESPONSES, {**INPUT, "max_output_tokens": 5000}, {"max_output_tokens": 100}),
        (RESPONSES, INPUT, {"max_output_tokens": 100}),
        (OPENAI, {**HELLO, "max_tokens": 5000}, {"max_tokens": 100}),
        (OPENAI, PROMPT, {"max_tokens": 100}),
        (NATIVE, {**PROMPT, "max_tokens": 5000}, {"max_tokens": 100}),
        # Workers AI's own default is 256.
        (NATIVE, PROMPT, {"max_tokens": 100}),
        (RUN, {"input": {**HELLO, "max_tokens": 5000}}, {"max_tokens": 100}),
    ],
)  # fmt: skip
def test_a_longer_answer_is_lowered_to_the_contracts_bound(
    path: bytes, body: dict[str, Any], sent: dict[str, int]
) -> None:
    found = read(reader(CAPPED), path, body)
    assert {name: found.has(name) for name in sent} == sent
    assert found.request.terms.output_tokens_max == 100
    assert found.effects == ["output=100"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, {**HELLO, "max_tokens": 100}),
        (CHAT, {**HELLO, "max_completion_tokens": 99, "max_tokens": 5000}),
        (COMPLETIONS, {**PROMPT, "max_tokens": 1}),
        (MESSAGES, {**HELLO, "max_tokens": 100}),
        (RESPONSES, {**INPUT, "max_output_tokens": 100}),
        (NATIVE, {**PROMPT, "max_tokens": 100}),
    ],
)
def test_an_answer_within_the_bound_is_left_as_it_is(path: bytes, body: dict[str, Any]) -> None:
    found = read(reader(CAPPED), path, body)
    assert found.body == read(reader(), path, body).body
    assert found.effects == []


def test_a_bound_above_the_models_default_length_is_not_sent() -> None:
    found = read(reader("output = { tokens_max = 4096 }"), CHAT, HELLO)
    assert "max_tokens" not in found.body
    assert found.effects == []


@pytest.mark.parametrize("given", [{}, {"max_output_tokens": 5000}])
def test_a_response_that_is_composed_of_chat_is_bounded_once(given: dict[str, int]) -> None:
    found = read(reader(CAPPED), RESPONSES, {**INPUT, "model": "composed", **given})
    assert found.request.api is Api.CHAT
    assert 100 in (found.has("max_tokens"), found.has("max_completion_tokens"))
    assert found.request.terms.output_tokens_max == 100
    assert found.effects == ["output=100"]


@pytest.mark.parametrize(
    ("path", "body", "sent", "choices"),
    [
        (CHAT, {**HELLO, "n": 4}, 2, 2),
        (CHAT, {**HELLO, "n": 2}, 2, 2),
        (CHAT, HELLO, None, 1),
        (COMPLETIONS, {**PROMPT, "n": 4}, 2, 2),
        (COMPLETIONS, {"prompt": ["a", "b", "c"], "n": 4}, 2, 6),
        (COMPLETIONS, {"prompt": ["a", "b", "c"]}, None, 3),
        (OPENAI, {**HELLO, "n": 4}, 2, 2),
    ],
)
def test_choices_are_bounded_for_each_prompt(
    path: bytes, body: dict[str, Any], sent: int | None, choices: int
) -> None:
    found = read(reader("output = { choices_max = 2 }"), path, body)
    assert (found.has("n"), found.request.prompt.choices) == (sent, choices)
    assert found.effects == (["choices=2"] if body.get("n") == 4 else [])


def test_vectors_are_not_answers_that_could_be_bounded() -> None:
    body = {"model": "vectors", "input": ["a", "b"]}
    both = reader("output = { tokens_max = 1, choices_max = 1 }")
    found = read(both, b"/v1/embeddings", body)
    assert (found.body, found.effects) == (read(reader(), b"/v1/embeddings", body).body, [])


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, {"messages": [{"role": "user", "content": "x" * 9000}]}),
        (RESPONSES, {"input": "x" * 9000, "store": False}),
        (COMPLETIONS, {"prompt": "x" * 9000}),
    ],
)
def test_a_prompt_that_is_longer_than_the_contract_allows_is_refused(
    path: bytes, body: dict[str, Any]
) -> None:
    with pytest.raises(PromptOverContract, match=r"contract w@7 allows 1000\.") as refused:
        read(reader("prompt = { tokens_max = 1000 }"), path, body)
    assert (refused.value.status, refused.value.code) == (400, "prompt_over_contract")
    assert read(reader("prompt = { tokens_max = 10_000 }"), path, body).effects == []
    observed = read(reader('mode = "observe"\nprompt = { tokens_max = 1000 }'), path, body)
    assert observed.effects == ["prompt=refused"]


CHOOSES = '[models]\ndefault = "full"\nclass = { extract = "small" }\n'


def test_labels_say_the_contract_the_class_and_the_model_that_was_asked() -> None:
    found = read(reader(CHOOSES), CHAT, {**HELLO, "model": "auto"}, x_penstock_task=b"extract")
    labels = found.request.labels
    assert (labels.workflow, labels.contract, labels.task) == ("w", "w@7", "extract")
    assert labels.model_asked == "auto"
    assert found.request.model.id == "@cf/x/small"
    assert found.effects == ["model=@cf/x/small"]
    obeyed = read(reader(CHOOSES), CHAT, HELLO).request.labels
    assert (obeyed.contract, obeyed.task, obeyed.model_asked) == ("w@7", "default", "")
    without = read(reader(), CHAT, HELLO, x_penstock_task=b"extract").request.labels
    assert (without.workflow, without.contract, without.task, without.model_asked) == (
        "w", "", "", "",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        ({}, {"x_penstock_task": b"extract"}),
        ({}, {"cf_aig_metadata": b'{"task":"extract"}'}),
        ({"metadata": {"task": "extract", "workflow": "other"}}, {}),
        ({"metadata": {"task": "look"}}, {"cf_aig_metadata": b'{"task":"extract"}'}),
        ({"metadata": {"task": 5}}, {"x_penstock_task": b"extract", "cf_aig_metadata": b"{"}),
    ],
)
@pytest.mark.parametrize("path", [CHAT, RUN])
def test_the_class_is_named_in_the_same_places_as_the_workflow(
    path: bytes, body: dict[str, Any], headers: dict[str, Any]
) -> None:
    whole = {**HELLO, **body}
    sent = {"model": "auto", "input": whole} if path == RUN else {**whole, "model": "auto"}
    assert read(reader(CHOOSES), path, sent, **headers).request.labels.task == "extract"


def test_the_model_in_a_path_may_be_left_to_the_contract() -> None:
    found = read(reader(CHOOSES), RUN + b"/auto", HELLO, x_penstock_task=b"extract")
    assert found.request.model.id == "@cf/x/small"
    with pytest.raises(UnknownModel):
        read(reader(), RUN + b"/auto", HELLO)


@pytest.mark.parametrize("path", [CHAT, MESSAGES, OPENAI])
def test_a_callers_cost_cap_may_shorten_an_answer_that_the_contract_bounds(path: bytes) -> None:
    made = reader("output = { tokens_max = 1000 }")
    cap: dict[str, Any] = {"x_penstock_max_cost_usd": b"0.0001"}
    assert read(made, path, HELLO).has("max_tokens") == 1000
    shorter = read(made, path, HELLO, **cap)
    assert (shorter.has("max_tokens"), shorter.request.terms.output_tokens_max) == (100, 100)
    nulls = {**HELLO, "max_tokens": None, "max_completion_tokens": None}
    if path != MESSAGES:
        shorter = read(made, path, nulls, **cap)
        assert (shorter.has("max_tokens"), shorter.has("max_completion_tokens")) == (100, None)
    with pytest.raises(CostCapped):
        read(made, path, {**HELLO, "max_tokens": 5000}, **cap)


def test_a_cost_cap_may_shorten_a_response_whose_length_only_the_contract_bounds() -> None:
    made = reader("output = { tokens_max = 1000 }")
    cap: dict[str, Any] = {"x_penstock_max_cost_usd": b"0.0001"}
    assert read(made, RESPONSES, INPUT, **cap).has("max_output_tokens") == 100
    composed = read(made, RESPONSES, {**INPUT, "model": "composed"}, **cap)
    assert (composed.has("max_tokens"), composed.has("max_completion_tokens")) == (100, 100)
    with pytest.raises(CostCapped):
        read(made, RESPONSES, {**INPUT, "max_output_tokens": 5000}, **cap)


BODIES: list[tuple[bytes, dict[str, Any]]] = [
    (CHAT, {**HELLO, "max_tokens": 5000, "n": 3, "metadata": {"a": "b"}}),
    (CHAT, HELLO),
    (COMPLETIONS, {**PROMPT, "max_tokens": 5000, "n": 3}),
    (MESSAGES, {**HELLO, "max_tokens": 5000}),
    (RESPONSES, {**INPUT, "max_output_tokens": 5000}),
    (RESPONSES, {**INPUT, "model": "composed"}),
    (NATIVE, PROMPT),
    (OPENAI, {**HELLO, "max_tokens": 5000}),
]
STRICT = 'output = { tokens_max = 10, choices_max = 1 }\n[models]\ndefault = "small"\n'


@pytest.mark.parametrize(("path", "body"), BODIES)
def test_a_contract_that_observes_sends_the_same_bytes(path: bytes, body: dict[str, Any]) -> None:
    observed = read(reader(f'mode = "observe"\n{STRICT}'), path, body)
    without = read(reader(), path, body)
    assert observed.body == without.body
    assert observed.request.model is without.request.model
    assert observed.request.terms.output_tokens_max == without.request.terms.output_tokens_max
    assert observed.request.prompt.choices == without.request.prompt.choices
    assert observed.request.labels.contract == "w@7"
    expected = ["model=refused", "output=10"]
    assert observed.effects == (expected if body.get("n") is None else [*expected, "choices=1"])
    with pytest.raises(ModelNotAllowed):
        read(reader(STRICT), path, body)


@pytest.mark.parametrize(("path", "body"), BODIES)
def test_other_workflows_and_cells_without_contracts_are_as_before(
    path: bytes, body: dict[str, Any]
) -> None:
    without = read(reader(), path, body)
    other = read(reader(STRICT), path, body, x_penstock_workflow=b"another")
    assert (without.effects, without.request.labels.contract) == ([], "")
    assert (other.effects, other.request.labels.contract) == ([], "")
    assert other.body == without.body
    assert other.request.model is without.request.model


@pytest.mark.parametrize("contracts", [(), (CAPPED,)])
@pytest.mark.parametrize("path", [CHAT, OPENAI])
def test_a_bound_key_may_name_no_other_workflow(path: bytes, contracts: tuple[str, ...]) -> None:
    made = reader(*contracts)
    for name in (b"w", b""):
        assert (
            read(made, path, HELLO, key=BOUND, x_penstock_workflow=name).request.labels.workflow
            == "w"
        )
    bad: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({}, {"x_penstock_workflow": b"another"}),
        ({}, {"x_penstock_workflow": b"", "cf_aig_metadata": b'{"workflow":"another"}'}),
        ({"metadata": {"workflow": "another"}}, {"x_penstock_workflow": b""}),
    ]
    for body, headers in bad:
        with pytest.raises(WorkflowNotAllowed) as refused:
            read(made, path, {**HELLO, **body}, key=BOUND, **headers)
        assert (refused.value.status, refused.value.code) == (403, "workflow_not_allowed")


def test_a_bound_key_has_its_contract_without_a_header() -> None:
    found = read(reader(CAPPED), CHAT, HELLO, key=BOUND, x_penstock_workflow=b"")
    assert found.request.labels.contract == "w@7"
    assert found.has("max_tokens") == 100


@pytest.mark.parametrize("key", [KEY, BOUND])
@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"max_tokens": -1}, InvalidRequest),
        ({"model": "", "max_tokens": 1}, InvalidRequest),
        ({"model": "no-such"}, UnknownModel),
        ({"n": 0}, InvalidRequest),
    ],
)
def test_wrong_requests_are_refused_as_without_a_contract(
    key: Key, body: dict[str, Any], kind: type[Error]
) -> None:
    for made in (reader(), reader(CAPPED)):
        with pytest.raises(kind):
            read(made, CHAT, {**HELLO, **body}, key=key)
