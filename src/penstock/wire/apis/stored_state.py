"""Reads what a Responses request says about state: what it refers to, and what is to be kept."""

from typing import Any, Final

import msgspec

from penstock.errors import InvalidRequest, StateUnavailable
from penstock.wire.apis.chat_options import NamedConversation
from penstock.wire.json_body import Field, Fields, is_given

_STORE: Final = Field("store", msgspec.json.Decoder(bool | None), None)
_BACKGROUND: Final = Field("background", msgspec.json.Decoder(bool | None), None)
_PREVIOUS: Final = Field("previous_response_id", msgspec.json.Decoder(str | None), None)
_CONVERSATION: Final = Field(
    "conversation", msgspec.json.Decoder(str | NamedConversation | None), None
)
_ID: Final = b'"id"'
_ITEM_REFERENCE: Final = b'"item_reference"'
# An item that has none of these can only be a reference to one that was sent before.
_ITEM_KEYS: Final = ("type", "role", "content")
STATE_FIELDS: Final = frozenset({"store", "previous_response_id", "conversation", "background"})
_NOT_SERVED: Final = "prompt"


class StateWish(msgspec.Struct, frozen=True):
    """What a request wants of stored state. `store` is None where the request does not say.

    `needs` names the field that cannot be served without stored state; "" if there is none.
    """

    store: bool | None = None
    previous: str = ""
    conversation: str = ""
    is_background: bool = False
    needs: str = ""


def read_state(fields: Fields) -> StateWish:
    """Read what a request wants; refuse what is not served."""
    if is_given(fields, _NOT_SERVED):
        raise no_state(_NOT_SERVED)
    is_background = bool(_BACKGROUND.read(fields))
    store, previous = _STORE.read(fields), _PREVIOUS.read(fields) or ""
    conversation = _conversation(fields)
    if previous and conversation:
        raise InvalidRequest(
            "A request goes on from a response or from a conversation, not from both.",
            param="conversation",
        )
    if previous:
        needs = "previous_response_id"
    elif conversation:
        needs = "conversation"
    elif is_background:
        needs = "background"
    elif "input" in fields and _ITEM_REFERENCE in bytes(fields["input"]):
        needs = "input"
    else:
        needs = "store" if store else ""
    return StateWish(store, previous, conversation, is_background, needs)


def _conversation(fields: Fields) -> str:
    given = _CONVERSATION.read(fields)
    return given.id if isinstance(given, NamedConversation) else given or ""


def may_refer(fields: Fields) -> bool:
    """Return whether an input may have references: items with an id, or their type."""
    return "input" in fields and (_ID in bytes(fields["input"]))


def refuse_references(items: list[Fields]) -> None:
    """Refuse items that refer to earlier requests, where nothing of those is at hand."""
    for at, item in enumerate(items):
        if _is_reference(item):
            raise no_state(f"input.{at}")


def referred_to(item: dict[str, Any], param: str) -> str | None:
    """Return the id of the item that this one refers to; None if it is an item itself."""
    is_reference = item.get("type") == "item_reference" or (
        "id" in item and not any(item.get(name) is not None for name in _ITEM_KEYS)
    )
    if not is_reference:
        return None
    id = item.get("id")
    if not isinstance(id, str):
        raise InvalidRequest("An `item_reference` needs an `id`.", param=param)
    return id


def no_state(param: str) -> StateUnavailable:
    """Return the refusal of a field that needs stored state."""
    return StateUnavailable(
        f"`{param}` needs something to be kept from one request to the next, and nothing is kept"
        " for this account: send `store: false`, and the whole input each time.",
        param=param,
    )


def _is_reference(item: Fields) -> bool:
    kind = item.get("type")
    if kind is not None and bytes(kind) == _ITEM_REFERENCE:
        return True
    return "id" in item and not any(is_given(item, name) for name in _ITEM_KEYS)
