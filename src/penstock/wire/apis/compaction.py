"""Compacts a conversation: a model's summary of it, as an item that later requests send instead.

The item's `encrypted_content` is the summary, signed for its cell and account. It is not encrypted:
it is the caller's own text. The signature keeps apart what other servers wrote, which would be
rendered as nonsense.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from penstock.clock import new_id
from penstock.errors import EngineFailed, InvalidRequest
from penstock.wire.apis.response_items import Item
from penstock.wire.apis.response_object import Response

# The last message of a request that compacts: what the model is asked to do.
INSTRUCTION: Final = (
    "Summarise the conversation above, so that it can be continued from your summary alone. Keep"
    " every goal, decision, name, number, file path, result of a tool and open question that may"
    " still matter; leave out what is settled and not needed. Write the summary and nothing else."
)
_TOLD: Final = "Summary of the conversation so far:\n\n"
_VERSION: Final = "penstock1"


def users_messages(items: list[Item]) -> list[Raw]:
    """Return the user's messages as a compaction repeats them; they may be large, so as JSON."""
    key = new_id().replace("-", "")
    return [
        Raw(
            msgspec.json.encode(
                {
                    "id": f"msg_{key}c{place}",
                    "type": "message",
                    "status": "completed",
                    "role": "user",
                    "content": _parts(item.get("content")),
                }
            )
        )
        for place, item in enumerate(items)
        if item.get("role") == "user" and item.get("type", "message") == "message"
    ]


def compacted(response: Response, kept: list[Raw], secret: str) -> dict[str, Any]:
    """Return the answer of `compact`: the user's messages, then one item with the summary."""
    summary = _text_of(response)
    if not summary:
        raise EngineFailed("The model wrote no summary.")
    key = response["id"].partition("_")[2]
    item = {
        "id": f"cmp_{key}c0",
        "type": "compaction",
        "encrypted_content": _signed(summary, secret),
    }
    return {
        "id": response["id"],
        "object": "response.compaction",
        "created_at": response["created_at"],
        "output": [*kept, item],
        "usage": response["usage"],
    }


def with_summaries(items: Sequence[Item], secret: str) -> list[Item]:
    """Return the items with compactions as messages; refuse one of another cell or account."""
    return [
        _opened(item, secret, f"input.{at}") if item.get("type") == "compaction" else item
        for at, item in enumerate(items)
    ]


def _opened(item: Item, secret: str, param: str) -> Item:
    version, _, rest = str(item.get("encrypted_content")).partition(".")
    text, _, mark = rest.partition(".")
    try:
        summary = base64.urlsafe_b64decode(text.encode()).decode()
    except (binascii.Error, UnicodeError):
        summary = ""
    is_ours = version == _VERSION and hmac.compare_digest(
        mark.encode(), _mark(summary, secret).encode()
    )
    if not is_ours:
        raise InvalidRequest(
            "This `compaction` was not made here for this account: send the messages instead.",
            param=param,
        )
    return {"type": "message", "role": "system", "content": _TOLD + summary}


def _signed(summary: str, secret: str) -> str:
    text = base64.urlsafe_b64encode(summary.encode()).decode()
    return f"{_VERSION}.{text}.{_mark(summary, secret)}"


def _mark(summary: str, secret: str) -> str:
    key = hashlib.sha256(secret.encode()).digest()
    return hashlib.blake2b(
        summary.encode(), key=key, digest_size=16, person=b"penstock compact"
    ).hexdigest()


def _text_of(response: Response) -> str:
    texts = [
        part["text"]
        for item in response["output"]
        if item["type"] == "message"
        for part in item["content"]
    ]
    return "".join(texts).strip()


def _parts(content: object) -> object:
    return [{"type": "input_text", "text": content}] if isinstance(content, str) else content
