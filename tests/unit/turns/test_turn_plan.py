"""A turn asks the model, runs what it calls, and always ends."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.turns.plan import (
    TOO_MANY,
    UNKNOWN,
    Action,
    AskModel,
    Finish,
    RunCalls,
    TurnLimits,
    TurnState,
    after,
    next_action,
)
from penstock.turns.settings import TurnsSettings
from penstock.wire.apis.server_tools import ServerFunction, ServerTool, python_function
from penstock.wire.apis.turn_composer import AskedCall, ChatAnswer

LIMITS = TurnLimits(model_calls_max=64, tool_calls_max=64)
PYTHON = python_function("Runs code.")
FIND = ServerFunction("docs__find", ServerTool.MCP, "", {}, "docs", "find", needs_approval=True)
FUNCTIONS = {each.name: each for each in (PYTHON, FIND)}
CODE = AskedCall("c1", "python", "{}")
SEARCH = AskedCall("c2", "docs__find", "{}")


def then(state: TurnState, answer: ChatAnswer | None = None) -> TurnState:
    following = after(state, next_action(state, FUNCTIONS, LIMITS), answer)
    assert following is not None
    return following


def test_a_forced_choice_holds_for_the_first_call_only() -> None:
    state = TurnState()
    assert next_action(state, FUNCTIONS, LIMITS) == AskModel("asked")
    state = then(state, ChatAnswer([CODE], has_client_calls=False, finish="tool_calls"))
    assert next_action(state, FUNCTIONS, LIMITS) == RunCalls([CODE], [], [], is_last=False)
    assert next_action(then(state), FUNCTIONS, LIMITS) == AskModel("auto")


def test_an_answer_without_calls_is_the_last() -> None:
    state = then(TurnState(), ChatAnswer([], has_client_calls=False, finish="stop"))
    assert next_action(state, FUNCTIONS, LIMITS) == Finish()


@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_calls_of_an_answer_that_was_cut_are_not_run(finish: str) -> None:
    state = then(TurnState(), ChatAnswer([CODE], has_client_calls=False, finish=finish))
    assert next_action(state, FUNCTIONS, LIMITS) == Finish()


def test_calls_of_the_client_end_the_turn_after_ours_have_run() -> None:
    state = then(TurnState(), ChatAnswer([CODE], has_client_calls=True, finish="tool_calls"))
    action = next_action(state, FUNCTIONS, LIMITS)
    assert action == RunCalls([CODE], [], [], is_last=True)
    assert after(state, action) is None


def test_a_call_that_needs_approval_waits_for_it() -> None:
    state = then(TurnState(), ChatAnswer([CODE, SEARCH], has_client_calls=False, finish="stop"))
    assert next_action(state, FUNCTIONS, LIMITS) == RunCalls([CODE], [], [SEARCH], is_last=True)
    # The user approved it: it runs before the model is asked.
    state = TurnState(approved=[SEARCH])
    assert next_action(state, FUNCTIONS, LIMITS) == RunCalls([SEARCH])
    assert next_action(then(state), FUNCTIONS, LIMITS) == AskModel("asked")


def test_calls_beyond_the_limit_are_told_so_and_the_model_gets_no_tools() -> None:
    limits = TurnLimits(model_calls_max=64, tool_calls_max=1)
    state = TurnState(1, 0, ChatAnswer([CODE, CODE], has_client_calls=False, finish="stop"))
    action = next_action(state, FUNCTIONS, limits)
    assert action == RunCalls([CODE], [(CODE, TOO_MANY)], [], is_last=False)
    state = after(state, action) or TurnState()
    assert next_action(state, FUNCTIONS, limits) == AskModel("none")


def test_a_tool_that_does_not_exist_is_not_run() -> None:
    unknown = AskedCall("c3", "rm", "{}")
    state = TurnState(1, 0, ChatAnswer([unknown], has_client_calls=False, finish="stop"))
    assert next_action(state, FUNCTIONS, LIMITS) == RunCalls([], [(unknown, UNKNOWN)])


CALLS = st.lists(st.sampled_from([CODE, SEARCH, AskedCall("c3", "rm", "{}")]), max_size=5)
ANSWERS = st.builds(
    ChatAnswer, CALLS, st.booleans(), st.sampled_from(["stop", "tool_calls", "length", ""])
)


@given(
    st.lists(ANSWERS, min_size=1, max_size=30),
    st.integers(1, 9),
    st.integers(0, 9),
    st.lists(st.just(SEARCH), max_size=3),
)
def test_every_turn_ends_within_its_limits(
    answers: list[ChatAnswer], model_calls: int, tool_calls: int, approved: list[AskedCall]
) -> None:
    limits = TurnLimits(model_calls, tool_calls)
    state: TurnState | None = TurnState(approved=approved)
    done: list[Action] = []
    asked = 0
    while state is not None:
        action = next_action(state, FUNCTIONS, limits)
        done.append(action)
        answer = answers[asked % len(answers)]
        if isinstance(action, AskModel):
            asked += 1
        state = after(state, action, answer)
        assert len(done) < 100
    ran = sum(len(action.run) for action in done if isinstance(action, RunCalls))
    assert ran <= tool_calls + len(approved)
    assert 1 <= asked <= max(model_calls, 2)
    assert [action for action in done if action == AskModel("asked")] == [AskModel("asked")]


def test_no_more_approved_calls_run_than_a_turn_may_run() -> None:
    limits = TurnLimits(model_calls_max=64, tool_calls_max=1)
    other = AskedCall("c3", "docs__find", "{}")
    state = TurnState(approved=[SEARCH, other])
    action = next_action(state, FUNCTIONS, limits)
    assert action == RunCalls([SEARCH], [(other, TOO_MANY)])
    following = after(state, action)
    assert following is not None
    assert next_action(following, FUNCTIONS, limits) == AskModel("asked")


def test_a_turn_has_a_question_before_the_one_without_tools() -> None:
    assert msgspec.convert({"calls_max": 2}, TurnsSettings).calls_max == 2
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"calls_max": 1}, TurnsSettings)
