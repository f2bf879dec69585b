"""Which contract binds a request, which model serves it; a conversation keeps its model."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.contracts.contract_samples import (
    ACME,
    BIG,
    CATALOGUE,
    EYES,
    KEY,
    MODELS,
    OTHER,
    SMALL,
    TOOLS,
    TOP,
    asked,
    contract_set,
    function,
    user,
    whens,
)

from penstock.contracts.asked import Asked
from penstock.contracts.compiling import CompiledModels, ContractSet
from penstock.contracts.counts import ContractCounts
from penstock.contracts.deciding import (
    ContractDecision,
    decide,
    matches,
    workflow_of,
)
from penstock.contracts.document import AskedModel, ClassRule, When
from penstock.errors import ModelNotAllowed, UnknownModel, WorkflowNotAllowed
from penstock.records.account import Account, AccountId, Key, KeyId, Role

RULES = """rule = [
  { class = "extract", when = { tools = 0, output_tokens_max = 64 } },
  { class = "look", when = { tools = 0 } },
  { class = "extract", when = { tool = "fetch*" } },
]
"""
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
FORBIDDEN = Account(AccountId("beta"), "Beta")
BETA = Key(KeyId("k2"), Role.RUNTIME, FORBIDDEN)


def terms(asked_model: str = "obey", rest: str = "", top: str = "") -> ContractSet:
    return contract_set(f'{TOP}{top}{MODELS}asked = "{asked_model}"\n{rest}')


def decided(contracts: ContractSet, request: Asked) -> ContractDecision:
    decision = decide(contracts, request, CATALOGUE)
    assert decision is not None
    return decision


def test_a_model_that_the_contract_names_is_obeyed() -> None:
    for name, model in (("big", BIG), ("small", SMALL), ("@cf/x/eyes", EYES)):
        decision = decided(terms(), asked(name))
        assert (decision.model, decision.task, decision.why) == (model, "default", "")
        assert decision.effects == []


def test_a_model_that_the_contract_does_not_name_is_refused_with_those_it_does() -> None:
    with pytest.raises(ModelNotAllowed, match="@cf/x/big, @cf/x/eyes, @cf/x/small") as refused:
        decide(terms(), asked("other"), CATALOGUE)
    assert refused.value.param == "model"
    assert "code-review@7" in refused.value.message


def test_override_gives_the_classes_model_and_says_why() -> None:
    decision = decided(terms("override"), asked("other", task="extract"))
    assert (decision.model, decision.task, decision.why) == (SMALL, "extract", "override")
    assert decision.model_asked == "other"
    assert list(map(str, decision.effects)) == [f"model={SMALL.id}"]
    same = decided(terms("override"), asked("@cf/x/small", task="extract"))
    assert (same.model, same.why, same.effects) == (SMALL, "", [])


def test_override_takes_models_that_are_not_in_the_catalogue() -> None:
    assert decided(terms("override"), asked("gpt-of-elsewhere")).model is BIG
    for other in ("obey", "refuse"):
        with pytest.raises(UnknownModel):
            decide(terms(other), asked("gpt-of-elsewhere"), CATALOGUE)


def test_refuse_allows_only_the_classes_own_model() -> None:
    assert decided(terms("refuse"), asked("small", task="extract")).model is SMALL
    with pytest.raises(ModelNotAllowed, match='"auto"`, or @cf/x/small'):
        decide(terms("refuse"), asked("big", task="extract"), CATALOGUE)


@pytest.mark.parametrize("mode", list(AskedModel))
def test_auto_leaves_the_choice_to_the_contract(mode: str) -> None:
    decision = decided(terms(mode), asked("auto", task="look"))
    assert (decision.model, decision.why) == (EYES, "class")
    assert list(map(str, decision.effects)) == [f"model={EYES.id}"]


def test_auto_is_unknown_where_no_contract_chooses() -> None:
    with pytest.raises(UnknownModel):
        decide(contract_set(TOP), asked("auto"), CATALOGUE)


def test_the_callers_class_comes_before_rules() -> None:
    decision = decided(terms(rest=RULES), asked("auto", task="extract", tools=[]))
    assert (decision.task, decision.model) == ("extract", SMALL)
    default = decided(terms(rest=RULES), asked("auto", task="default", tools=[]))
    assert (default.task, default.model, default.unknown_task) == ("default", BIG, "")


@pytest.mark.parametrize(
    ("body", "task"),
    [
        ({"max_tokens": 64}, "extract"),
        ({"max_tokens": 65}, "look"),
        ({}, "look"),
        ({"tools": [function("bash"), function("fetch_page")]}, "extract"),
        ({"tools": [function("bash")]}, "default"),
    ],
)
def test_the_first_rule_that_matches_gives_the_class(body: dict[str, Any], task: str) -> None:
    assert decided(terms(rest=RULES), asked("big", **body)).task == task


@pytest.mark.parametrize(
    ("tool", "names", "holds"),
    [
        ("fetch*", ["bash", "fetch_page"], True),
        ("fetch", ["prefetch", "fetch_page"], False),
        ("*fetch*page", ["bash", "a_fetch_b_page"], True),
        ("*page*fetch", ["fetch_page"], False),
        ("a*a", ["a"], False),
        ("*", [""], True),
        ("*", [], False),
        # Only `*` stands for others.
        ("fetch[ab]", ["fetcha"], False),
        ("fetch?", ["fetcha"], False),
        ("a.c", ["abc"], False),
        ("bash", ["x\nbash"], False),
    ],
)
def test_a_pattern_finds_the_name_of_a_tool(tool: str, names: list[str], holds: bool) -> None:
    tools = [function(name) if name else {} for name in names]
    assert matches(When(tool=tool), asked(tools=tools)) is holds


def test_an_unknown_class_counts_as_default_and_is_counted() -> None:
    decision = decided(terms(rest=RULES), asked("auto", task="summarise"))
    assert (decision.task, decision.model, decision.unknown_task) == ("default", BIG, "summarise")
    counts = ContractCounts()
    for each in (decision, decided(terms(), asked("auto", task="look")), None):
        counts.add(each)
    assert counts.unknown_tasks == 1
    assert counts.effects == {"code-review model enforce": 2}


@pytest.mark.parametrize(
    ("task", "body"),
    [
        ("extract", {"tools": [function("bash")]}),
        ("look", {"functions": [{"name": "bash"}]}),
        ("extract", {"messages": [user("hi"), user([IMAGE])]}),
        ("extract", {"input": [user([{"type": "input_image", "image_url": "data:"}])]}),
        ("extract", {"messages": [user([{"type": "image", "source": {}}])]}),
    ],
)
def test_a_model_that_lacks_what_the_request_needs_is_skipped_for_the_default(
    task: str, body: dict[str, Any]
) -> None:
    for mode in ("obey", "override"):
        decision = decided(terms(mode), asked("auto", task=task, **body))
        assert (decision.model, decision.task) == (BIG, task)
    assert decided(terms(), asked("auto", task="look", messages=[user([IMAGE])])).model is EYES


def test_a_contract_without_models_leaves_the_callers() -> None:
    decision = decided(contract_set(TOP), asked("other", task="anything"))
    assert (decision.model, decision.task, decision.why) == (OTHER, "", "")
    assert decision.contract.label == "code-review@7"
    with pytest.raises(UnknownModel):
        decide(contract_set(TOP), asked("no-such"), CATALOGUE)


@pytest.mark.parametrize("workflow", ["", "another"])
def test_the_default_contract_binds_requests_that_have_no_other(workflow: str) -> None:
    default = TOP.replace("code-review", "default")
    both = contract_set(TOP, default)
    assert decided(both, asked(workflow=workflow)).contract.name == "default"
    assert decided(both, asked()).contract.name == "code-review"
    assert decide(contract_set(TOP), asked(workflow=workflow), CATALOGUE) is None


def test_another_accounts_contract_is_refused_and_its_default_does_not_bind() -> None:
    own = f'{TOP}accounts = ["acme"]\n'
    contracts = contract_set(own, own.replace("code-review", "default"))
    assert decided(contracts, asked()).contract.name == "code-review"
    with pytest.raises(WorkflowNotAllowed) as refused:
        decide(contracts, asked(key=BETA), CATALOGUE)
    assert (refused.value.status, refused.value.code) == (403, "workflow_not_allowed")
    assert decide(contracts, asked(key=BETA, workflow=""), CATALOGUE) is None


def test_another_accounts_contract_that_observes_refuses_nobody() -> None:
    observed = f'{TOP}accounts = ["acme"]\nmode = "observe"\n'
    assert decide(contract_set(observed), asked(key=BETA), CATALOGUE) is None
    both = contract_set(observed, TOP.replace("code-review", "default"))
    assert decided(both, asked(key=BETA)).contract.name == "default"


def test_no_contract_binds_a_key_without_an_account() -> None:
    key = Key(KeyId("o"), Role.OPERATOR, None)
    assert decide(contract_set(TOP), asked(key=key), CATALOGUE) is None


@pytest.mark.parametrize(
    ("mode", "model", "task", "effects"),
    [
        ("obey", "big", "extract", []),
        ("obey", "other", "", ["model=refused"]),
        ("refuse", "big", "extract", ["model=refused"]),
        ("override", "big", "extract", [f"model={SMALL.id}"]),
        ("override", "other", "", [f"model={BIG.id}"]),
    ],
)
def test_observing_serves_what_was_asked_and_notes_what_it_would_have_done(
    mode: str, model: str, task: str, effects: list[str]
) -> None:
    observed = terms(mode, top='mode = "observe"\n')
    decision = decided(observed, asked(model, task=task))
    assert decision.model is CATALOGUE.find(model)
    assert (decision.why, decision.is_enforced) == ("", False)
    assert list(map(str, decision.effects)) == effects


def test_observing_refuses_unknown_models_as_without_a_contract() -> None:
    observed = terms("override", top='mode = "observe"\n')
    with pytest.raises(UnknownModel):
        decide(observed, asked("no-such"), CATALOGUE)


def test_a_bound_key_has_its_workflow_whatever_the_request_says() -> None:
    bound = Key(KeyId("k3"), Role.RUNTIME, ACME, workflow="code-review")
    assert workflow_of(bound, "") == workflow_of(bound, "code-review") == "code-review"
    with pytest.raises(WorkflowNotAllowed, match="code-review") as refused:
        workflow_of(bound, "default")
    assert refused.value.param == "x-penstock-workflow"
    assert workflow_of(KEY, "anything") == "anything"
    assert workflow_of(KEY, "") == ""


# Words that also are names of parts, which an image would have.
TEXTS = st.sampled_from(("hi", "image", "image_url", '{"type": "image"}', '"image_url"', "é\n"))
PARTS = st.fixed_dictionaries({"type": st.just("text"), "text": TEXTS})
CONTENTS = TEXTS | st.lists(PARTS, max_size=2)
CALLS = st.fixed_dictionaries(
    {
        "role": st.just("assistant"),
        "tool_calls": st.lists(
            st.builds(
                lambda name: {"type": "function", "function": {"name": name, "arguments": "{}"}},
                st.sampled_from((*TOOLS, "image", "image_url")),
            ),
            max_size=2,
        ),
    }
)
TURNS = CALLS | st.fixed_dictionaries(
    {
        "role": st.sampled_from(("user", "assistant", "tool", "system")),
        "content": CONTENTS,
    }
)
OPENINGS = st.builds(
    lambda system, first: [*({"role": "system", "content": each} for each in system), first],
    st.lists(CONTENTS, max_size=2),
    st.builds(user, CONTENTS | st.just([IMAGE])),
)
BODIES = st.fixed_dictionaries(
    {},
    optional={
        "tools": st.lists(st.sampled_from(TOOLS).map(function), max_size=2),
        "max_tokens": st.integers(0, 300),
        "stream": st.booleans(),
        "instructions": TEXTS,
    },
)


@given(
    st.lists(st.tuples(st.sampled_from(("extract", "look", "default")), whens()), max_size=4),
    OPENINGS,
    st.lists(TURNS, max_size=4),
    BODIES,
    st.sampled_from(("messages", "input")),
)
def test_a_conversation_keeps_its_decision_as_it_grows(
    rules: list[tuple[str, When]],
    opening: list[object],
    turns: list[object],
    body: dict[str, object],
    field: str,
) -> None:
    contracts = terms("override")
    contract = contracts.by_name["code-review"]
    classes = {"extract": SMALL, "look": EYES}
    generated = [ClassRule(class_=task, when=when) for task, when in rules]
    contract.models = CompiledModels(BIG, classes, AskedModel.OVERRIDE, generated)
    found = set()
    for length in range(len(turns) + 1):
        whole: dict[str, Any] = {**body, field: [*opening, *turns[:length]]}
        decision = decided(contracts, asked("auto", **whole))
        found.add((decision.task, decision.model.id, decision.why))
    assert len(found) == 1
