"""Changes a request after its caller is known and before its prompt is read.

A Responses request for a model whose engine gets chat is rewritten as chat here. Contracts (another
model, fewer tools, a lower `max_tokens`) and stored state (earlier messages in front) belong here.
"""

from typing import Any, Final

import msgspec
from msgspec import Raw

from penstock.intake.opened_request import OpenedRequest
from penstock.records.request import Api
from penstock.wire.apis.prompt_request import STREAM
from penstock.wire.apis.response_items import Item
from penstock.wire.apis.response_to_chat import to_chat
from penstock.wire.apis.responses import read_responses
from penstock.wire.json_body import Fields

# The response's usage is exact, also if it is cut: every chunk has the count so far.
_WITH_USAGE: Final = Raw(b'{"include_usage":true,"continuous_usage_stats":true}')


def rewrite(opened: OpenedRequest, media_hosts: frozenset[str]) -> OpenedRequest:
    """Return the request to be served.

    Change a body by `OpenedRequest.with_fields`, which drops what was learned of the caller's body.
    """
    if opened.api is Api.RESPONSES and opened.model.responses == "chat":
        return as_chat(opened, media_hosts)
    return opened


def as_chat(opened: OpenedRequest, media_hosts: frozenset[str]) -> OpenedRequest:
    """Return a Responses request as chat; it remembers what it was made of."""
    own = opened.fields
    # Checks the whole request, and takes out tools that are not served.
    checked = read_responses(dict(own), media_hosts).fields
    chat = to_chat({**own, **_tools(checked)}, (), _items(own))
    if STREAM.read(own):
        chat["stream_options"] = _WITH_USAGE
    rewritten = opened.with_fields(chat)
    rewritten.api = Api.CHAT
    rewritten.composed = own
    return rewritten


def _tools(checked: Fields) -> Fields:
    return {"tools": checked.get("tools", Raw(b"null"))}


def _items(fields: Fields) -> list[Item]:
    given: Any = msgspec.json.decode(fields["input"])
    return [{"role": "user", "content": given}] if isinstance(given, str) else given
