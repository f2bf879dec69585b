"""Refuses Responses requests that need anything to be kept between requests.

Nothing is kept here yet: all of it is refused with one code, and the message says what to send.
"""

from typing import Final

import msgspec

from penstock.errors import StateUnavailable
from penstock.wire.json_body import Field, Fields, is_given

_REFERENCES: Final = ("previous_response_id", "conversation", "prompt")
_WISHES: Final = tuple(
    Field(name, msgspec.json.Decoder(bool | None), None) for name in ("store", "background")
)
_ITEM_REFERENCE: Final = b'"item_reference"'
# An item that has none of these can only be a reference to one that was sent before.
_ITEM_KEYS: Final = ("type", "role", "content")


def refuse_stored_state(fields: Fields, items: list[Fields]) -> None:
    """Refuse what refers to earlier requests, or asks to be stored for later ones."""
    for name in _REFERENCES:
        if is_given(fields, name):
            raise _refusal(f"`{name}`", name)
    for wish in _WISHES:
        if wish.read(fields):
            raise _refusal(f"`{wish.name}: true`", wish.name)
    for index, item in enumerate(items):
        if _is_reference(item):
            raise _refusal("An `item_reference`", f"input.{index}")


def _is_reference(item: Fields) -> bool:
    kind = item.get("type")
    if kind is not None and bytes(kind) == _ITEM_REFERENCE:
        return True
    return "id" in item and not any(is_given(item, name) for name in _ITEM_KEYS)


def _refusal(what: str, param: str) -> StateUnavailable:
    return StateUnavailable(
        f"{what} needs something to be kept from one request to the next, and nothing is kept"
        " here: send `store: false`, and the whole input each time.",
        param=param,
    )
