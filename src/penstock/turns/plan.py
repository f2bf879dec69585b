"""Decides what a turn does next: ask the model, run tools, or finish. Pure.

A turn is everything from a request to the end of its response: the model is asked, the tools that
it calls and that run here are run, and it is asked again with what they gave.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec

from penstock.wire.apis.chat_to_response import INCOMPLETE
from penstock.wire.apis.server_tools import ServerFunction
from penstock.wire.apis.turn_composer import AskedCall, ChatAnswer

# What the model is told of calls that are not run.
TOO_MANY: Final = "This call was not run: the limit of tool calls is reached. Answer without it."
UNKNOWN: Final = "This call was not run: there is no such tool."


class TurnLimits(msgspec.Struct, frozen=True):
    """How often the model may be asked in a turn, and how many tools it may run."""

    model_calls_max: int
    tool_calls_max: int


class TurnState(msgspec.Struct):
    """How far a turn is. `answer` is the latest one whose calls were not looked at yet."""

    model_calls: int = 0
    tool_calls: int = 0
    answer: ChatAnswer | None = None
    # Calls that a user has approved, to be run before the model is asked.
    approved: Sequence[AskedCall] = ()
    # The model was asked to answer without tools.
    is_closing: bool = False


class AskModel(msgspec.Struct, frozen=True):
    """Ask the model. A forced choice holds once, or the turn would never end."""

    choice: Literal["asked", "auto", "none"]


class RunCalls(msgspec.Struct, frozen=True):
    """Run these calls, tell the model why others are not run, and ask users to approve the rest."""

    run: Sequence[AskedCall] = []
    refused: Sequence[tuple[AskedCall, str]] = []
    approvals: Sequence[AskedCall] = []
    # The turn ends after them: somebody else has to act.
    is_last: bool = False


class Finish(msgspec.Struct, frozen=True):
    """The turn has ended."""


Action = AskModel | RunCalls | Finish


def next_action(
    state: TurnState, functions: Mapping[str, ServerFunction], limits: TurnLimits
) -> Action:
    """Return what comes next; the driver carries it out and notes it with `after`."""
    if state.approved:
        most = limits.tool_calls_max
        return RunCalls(state.approved[:most], [(call, TOO_MANY) for call in state.approved[most:]])
    answer = state.answer
    if answer is None:
        return AskModel(_choice(state, limits))
    # Of an answer that was cut, the last call may be cut too. Some models call tools although they
    # must not.
    if not answer.calls or answer.finish in INCOMPLETE or state.is_closing:
        return Finish()
    return _calls(answer, state, functions, limits)


def after(state: TurnState, action: Action, answer: ChatAnswer | None = None) -> TurnState | None:
    """Return the state after an action; None if the turn has ended."""
    if isinstance(action, Finish):
        return None
    if isinstance(action, AskModel):
        is_closing = action.choice == "none"
        return TurnState(state.model_calls + 1, state.tool_calls, answer, is_closing=is_closing)
    run = state.tool_calls + len(action.run)
    return None if action.is_last else TurnState(state.model_calls, run)


def _choice(state: TurnState, limits: TurnLimits) -> Literal["asked", "auto", "none"]:
    is_over = (
        state.tool_calls >= limits.tool_calls_max or state.model_calls >= limits.model_calls_max - 1
    )
    if is_over and state.model_calls:
        return "none"
    return "auto" if state.model_calls else "asked"


def _calls(
    answer: ChatAnswer,
    state: TurnState,
    functions: Mapping[str, ServerFunction],
    limits: TurnLimits,
) -> RunCalls:
    run: list[AskedCall] = []
    refused: list[tuple[AskedCall, str]] = []
    approvals: list[AskedCall] = []
    for call in answer.calls:
        function = functions.get(call.name)
        if function is None:
            refused.append((call, UNKNOWN))
        elif function.needs_approval:
            approvals.append(call)
        elif state.tool_calls + len(run) >= limits.tool_calls_max:
            refused.append((call, TOO_MANY))
        else:
            run.append(call)
    is_last = bool(approvals) or answer.has_client_calls
    return RunCalls(run, refused, approvals, is_last)
