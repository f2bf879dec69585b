"""Changes a request after its caller is known and before its prompt is read.

A Responses request that its model's engines cannot take is rewritten as chat here; one that reads
or writes stored state is marked, and `turns` rewrites it when it has loaded that. Contracts
(another model, fewer tools, a lower `max_tokens`) belong here.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from penstock.errors import InvalidRequest, MissingCapability
from penstock.intake.opened_request import ComposedRequest, OpenedRequest
from penstock.intake.routes import Wanted
from penstock.intake.storage_policy import StoragePolicy
from penstock.records.request import Api
from penstock.wire.apis.compaction import INSTRUCTION, users_messages, with_summaries
from penstock.wire.apis.prompt_request import STREAM
from penstock.wire.apis.response_items import Item, render
from penstock.wire.apis.response_object import echo_of
from penstock.wire.apis.response_to_chat import to_chat
from penstock.wire.apis.responses import read_responses
from penstock.wire.apis.server_calls import callers_items
from penstock.wire.apis.server_tools import (
    ServerFunction,
    may_have_server_tools,
    read_server_tools,
    shown_tools,
)
from penstock.wire.apis.stored_state import STATE_FIELDS, StateWish, read_state
from penstock.wire.json_body import Fields, is_given

# The response's usage is exact, also if it is cut: every chunk has the count so far.
_WITH_USAGE: Final = Raw(b'{"include_usage":true,"continuous_usage_stats":true}')
# A request that goes on from something may add nothing, as one that compacts a chain does.
_NOTHING_NEW: Final = Raw(b'""')
_NO_TOOLS: Final = Raw(b"null")
_COMPACTION: Final = re.compile(rb'"compaction"')
_NOT_STORED: Final = StateWish(store=False)
_ASKED_LAST: Final[Item] = {"type": "message", "role": "user", "content": INSTRUCTION}


def rewrite(
    opened: OpenedRequest,
    media_hosts: frozenset[str],
    storage: StoragePolicy,
    *,
    has_server_tools: bool = False,
) -> OpenedRequest:
    """Return the request to be served; it has a `state` if that must be loaded first.

    So does one with tools that run here, even if nothing of it is stored. Change a body by
    `OpenedRequest.with_fields`, which drops what was learned of the caller's body.
    """
    if opened.api is not Api.RESPONSES:
        return opened
    wish = read_state(opened.fields)
    is_answer = opened.route.wanted is Wanted.ANSWER
    if has_server_tools and is_answer and may_have_server_tools(opened.fields):
        opened.tools = read_server_tools(opened.fields)
        if opened.tools is not None and wish.is_background:
            raise MissingCapability(
                "A background response cannot have tools that run here.", param="background"
            )
    if storage.is_stateful(opened.account, wish):
        opened.state = wish
        return opened
    if opened.tools is not None:
        opened.state = _NOT_STORED
        return opened
    return as_chat(opened, media_hosts) if _needs_chat(opened) else opened


def as_chat(
    opened: OpenedRequest,
    media_hosts: frozenset[str],
    before: Sequence[Sequence[Item]] = (),
    functions: Sequence[ServerFunction] | None = None,
) -> OpenedRequest:
    """Return a Responses request as chat; it remembers what it was made of.

    `before` has the items that go before its own input, turn by turn; `functions` stand for its
    tools that run here.
    """
    own, is_compaction = opened.fields, opened.route.wanted is Wanted.COMPACTION
    # Checks the whole request, and takes out tools that are not served.
    stateless = {name: value for name, value in own.items() if name not in STATE_FIELDS}
    items = input_items(own)
    if before and not items:
        stateless["input"] = _NOTHING_NEW
    checked = read_responses(stateless, media_hosts).fields
    served = {**own, "tools": checked.get("tools", _NO_TOOLS)}
    secret = opened.grant.cache_salt
    given = with_summaries(items, secret)
    if is_compaction:
        given = [*given, _ASKED_LAST]
    groups = [with_summaries(group, secret) for group in before]
    chat = to_chat(served, groups, given, functions)
    if functions is not None:
        tools: list[Item] = msgspec.json.decode(served["tools"])
        served["tools"] = Raw(msgspec.json.encode(shown_tools(tools)))
    if STREAM.read(own):
        if is_compaction:
            raise InvalidRequest("A compaction is not streamed.", param="stream")
        chat["stream_options"] = _WITH_USAGE
    rewritten = opened.with_fields(chat)
    rewritten.api = Api.CHAT
    everything = [item for group in (*before, items) for item in group]
    kept = users_messages(everything) if is_compaction else None
    rewritten.composed = ComposedRequest(echo_of(served), kept)
    return rewritten


def check_items(items: list[Item], media_hosts: frozenset[str], secret: str) -> None:
    """Refuse items that could not be part of a request; errors name their place in `items`."""
    fields: Fields = {"input": Raw(msgspec.json.encode(items))}
    try:
        read_responses(fields, media_hosts)
        render([with_summaries(items, secret)])
    except InvalidRequest as wrong:
        param = (wrong.param or "").replace("input", "items", 1)
        raise InvalidRequest(wrong.message.replace("`input`", "`items`"), param=param) from None


def input_items(fields: Fields) -> list[Item]:
    """Return the items of an input that was checked; a text is the user's message."""
    if not is_given(fields, "input"):
        return []
    given: Any = msgspec.json.decode(fields["input"])
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    return callers_items(given)


def _needs_chat(opened: OpenedRequest) -> bool:
    if opened.model.responses == "chat" or opened.route.wanted is not Wanted.ANSWER:
        return True
    # Engines do not know our summaries.
    return is_given(opened.fields, "input") and bool(_COMPACTION.search(opened.fields["input"]))
