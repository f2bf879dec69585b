"""Runs a turn with tools in the gateway, while its client is connected.

`plan.py` says what comes next. Each time the model is asked is a request of its own on the request
path: routed, limited, billed and retried as any other, with the turn's id as its parent.
"""

import asyncio
from typing import Final, Protocol

import msgspec
from msgspec import Raw

from penstock.admission import Hold
from penstock.clock import new_id
from penstock.engine.sink import Sink
from penstock.errors import DeadlinePassed, OutOfCapacity
from penstock.intake.caller_headers import CallerHeaders
from penstock.intake.opened_request import OpenedRequest
from penstock.intake.request_reader import RequestReader
from penstock.records.request import Api, InferenceRequest, RequestEnd, RequestId
from penstock.records.usage import Usage
from penstock.serving.request_path import RequestPath
from penstock.turns.plan import AskModel, RunCalls, TurnLimits, TurnState, after, next_action
from penstock.turns.settings import TurnsSettings
from penstock.turns.tool_calls import ToolCalls
from penstock.turns.tool_offers import TurnTools
from penstock.wire.apis.response_items import Item, render
from penstock.wire.apis.turn_composer import ChatAnswer, TurnComposer
from penstock.wire.json_body import Fields

_AUTO: Final = Raw(b'"auto"')
_NONE: Final = Raw(b'"none"')
_MAX_TOKENS: Final = "max_completion_tokens"


class TurnClient(Protocol):
    """The client of a turn: its answer so far, and the way to it."""

    turn: TurnComposer

    @property
    def sink(self) -> Sink: ...

    def report(self) -> None:
        """Send the events that the composer has written."""

    def keep_alive(self) -> None:
        """Send comments until the next event."""


class AskedTurn(msgspec.Struct, frozen=True):
    """A turn to be run: its request as it was read, and what the caller's headers say."""

    opened: OpenedRequest
    tools: TurnTools
    request: InferenceRequest
    headers: CallerHeaders
    # What its first question to the model holds of its limits, if that is reserved already.
    hold: Hold | None = None


class ForegroundTurns:
    """Runs turns, at most `turns.foreground_max` at a time in a worker."""

    def __init__(
        self, reader: RequestReader, path: RequestPath, calls: ToolCalls, settings: TurnsSettings
    ) -> None:
        self._reader = reader
        self._path = path
        self._calls = calls
        self._settings = settings
        self.open = 0

    async def run(self, asked: AskedTurn, client: TurnClient, end: RequestEnd) -> None:
        """Run a turn to its end. `end` gets the sums of all its requests."""
        if self.open >= self._settings.foreground_max:
            raise OutOfCapacity
        self.open += 1
        try:
            async with asyncio.timeout(self._settings.seconds_max):
                await self._run(asked, client, end)
        except TimeoutError:
            raise DeadlinePassed from None
        finally:
            self.open -= 1

    async def _run(self, asked: AskedTurn, client: TurnClient, end: RequestEnd) -> None:
        tools, composer = asked.tools, client.turn
        limits = self._limits(asked)
        state: TurnState | None = TurnState(approved=tools.approved)
        # The files that code made, by their names: one that was changed again is named once.
        files: dict[str, Item] = {}
        _report_lists(tools, client)
        while state is not None and composer.response["status"] == "in_progress":
            action = next_action(state, tools.allowed, limits)
            answer = None
            if isinstance(action, AskModel):
                answer = await self._ask(asked, action, client, end)
                if answer is None:
                    return
                if not answer.calls:
                    composer.cite(list(files.values()))
                composer.close_answer()
                client.report()
            elif isinstance(action, RunCalls):
                client.keep_alive()
                made = await self._calls.run(action, tools, composer, client.report)
                files.update({file["filename"]: file for file in made})
            state = after(state, action, answer)

    async def _ask(
        self, asked: AskedTurn, action: AskModel, client: TurnClient, end: RequestEnd
    ) -> ChatAnswer | None:
        """Ask the model once more; None if its tokens are used up."""
        composer = client.turn
        is_first = not end.attempts
        hold = asked.hold if is_first else None
        if is_first and not composer.response["output"]:
            request, part = asked.request, end
        else:
            fields = _next_fields(asked, action, composer)
            if fields is None:
                composer.cut()
                return None
            request = await self._read(asked, fields, end, is_first=is_first)
            part = end if is_first else RequestEnd(trace=end.trace)
        client.keep_alive()
        try:
            await self._path.run(request, client.sink, part, hold)
        finally:
            if part is not end:
                _add(end, part)
        return composer.asked()

    async def _read(
        self, asked: AskedTurn, fields: Fields, end: RequestEnd, *, is_first: bool
    ) -> InferenceRequest:
        before = asked.opened
        opened = before.with_fields(fields)
        opened.api, opened.session = Api.CHAT, before.session
        opened.turn, opened.spent_nanousd = asked.request.id, end.charge_nanousd
        id = asked.request.id if is_first else RequestId(new_id())
        tier = asked.request.terms.tier
        return await self._reader.read_by_size(
            len(fields["messages"]),
            lambda reader: reader.read_prompt(id, asked.headers, opened, tier),
            before.route.inline_bytes_max,
        )

    def _limits(self, asked: AskedTurn) -> TurnLimits:
        most = self._settings.tool_calls_max
        wanted = asked.tools.tool_calls_max
        return TurnLimits(self._settings.calls_max, most if wanted is None else min(wanted, most))


def _report_lists(tools: TurnTools, client: TurnClient) -> None:
    for listed in tools.lists:
        client.turn.list_tools(listed.label, listed.tools, listed.error)
    if tools.lists:
        client.report()


def _next_fields(asked: AskedTurn, action: AskModel, composer: TurnComposer) -> Fields | None:
    """Return the chat request with what the turn has so far; None if no tokens are left."""
    chat = asked.tools.chat
    fields = {**chat, "messages": _joined(chat["messages"], composer)}
    if action.choice != "asked" and "tools" in fields:
        fields["tool_choice"] = _NONE if action.choice == "none" else _AUTO
    if _MAX_TOKENS in fields:
        used = composer.response["usage"] or {}
        left = int(msgspec.json.decode(fields[_MAX_TOKENS])) - int(used.get("output_tokens", 0))
        if left <= 0:
            return None
        fields[_MAX_TOKENS] = Raw(b"%d" % left)
    return fields


def _joined(messages: Raw, composer: TurnComposer) -> Raw:
    """Add the rounds of the turn. What was sent before stays as it is: the engine has it cached."""
    added = msgspec.json.encode(render([composer.stored()["output"]]))
    return Raw(bytes(messages)[:-1] + b"," + added[1:]) if len(added) > len(b"[]") else messages


def _add(end: RequestEnd, part: RequestEnd) -> None:
    """Add one request of a turn to the turn's sums."""
    # One for the turn: more are tries of the same request.
    end.attempts += max(part.attempts - 1, 0)
    end.charge_nanousd += part.charge_nanousd
    end.tokens += part.tokens
    end.waited_seconds += part.waited_seconds
    end.replica = part.replica or end.replica
    end.outcome, end.error_code = part.outcome, part.error_code
    if part.usage is not None:
        end.usage = part.usage if end.usage is None else _sum(end.usage, part.usage)


def _sum(one: Usage, other: Usage) -> Usage:
    cached = None
    if one.cached_tokens is not None or other.cached_tokens is not None:
        cached = (one.cached_tokens or 0) + (other.cached_tokens or 0)
    return Usage(
        one.prompt_tokens + other.prompt_tokens,
        one.completion_tokens + other.completion_tokens,
        cached,
        is_estimated=one.is_estimated or other.is_estimated,
    )
