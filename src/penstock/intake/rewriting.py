"""Changes a request after its caller is known and before its prompt is read.

A Responses request that its model's engines cannot take is rewritten as chat here. Contracts
(another model, fewer tools, a lower `max_tokens`) and stored state (earlier messages in front)
belong here.
"""

import re
from typing import Any, Final

import msgspec
from msgspec import Raw

from penstock.errors import InvalidRequest
from penstock.intake.opened_request import ComposedRequest, OpenedRequest
from penstock.intake.routes import Wanted
from penstock.records.request import Api
from penstock.wire.apis.compaction import INSTRUCTION, users_messages, with_summaries
from penstock.wire.apis.prompt_request import STREAM
from penstock.wire.apis.response_items import Item
from penstock.wire.apis.response_object import echo_of
from penstock.wire.apis.response_to_chat import to_chat
from penstock.wire.apis.responses import read_responses
from penstock.wire.json_body import Fields, is_given

# The response's usage is exact, also if it is cut: every chunk has the count so far.
_WITH_USAGE: Final = Raw(b'{"include_usage":true,"continuous_usage_stats":true}')
_NO_TOOLS: Final = Raw(b"null")
_COMPACTION: Final = re.compile(rb'"compaction"')
_ASKED_LAST: Final[Item] = {"type": "message", "role": "user", "content": INSTRUCTION}


def rewrite(opened: OpenedRequest, media_hosts: frozenset[str]) -> OpenedRequest:
    """Return the request to be served.

    Change a body by `OpenedRequest.with_fields`, which drops what was learned of the caller's body.
    """
    if opened.api is Api.RESPONSES and _needs_chat(opened):
        return _as_chat(opened, media_hosts)
    return opened


def _needs_chat(opened: OpenedRequest) -> bool:
    if opened.model.responses == "chat" or opened.route.wanted is not Wanted.ANSWER:
        return True
    # Engines do not know our summaries.
    return is_given(opened.fields, "input") and bool(_COMPACTION.search(opened.fields["input"]))


def _as_chat(opened: OpenedRequest, media_hosts: frozenset[str]) -> OpenedRequest:
    """Return a Responses request as chat; it remembers what it was made of."""
    own, is_compaction = opened.fields, opened.route.wanted is Wanted.COMPACTION
    # Checks the whole request, and takes out tools that are not served.
    checked = read_responses(dict(own), media_hosts).fields
    served = {**own, "tools": checked.get("tools", _NO_TOOLS)}
    items = _items(own)
    given = with_summaries(items, opened.grant.cache_salt)
    if is_compaction:
        given = [*given, _ASKED_LAST]
    chat = to_chat(served, (), given)
    if STREAM.read(own):
        if is_compaction:
            raise InvalidRequest("A compaction is not streamed.", param="stream")
        chat["stream_options"] = _WITH_USAGE
    rewritten = opened.with_fields(chat)
    rewritten.api = Api.CHAT
    kept = users_messages(items) if is_compaction else None
    rewritten.composed = ComposedRequest(echo_of(served), kept)
    return rewritten


def _items(fields: Fields) -> list[Item]:
    given: Any = msgspec.json.decode(fields["input"])
    return [{"role": "user", "content": given}] if isinstance(given, str) else given
