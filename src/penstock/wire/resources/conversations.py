"""What the pages of conversations take and answer."""

from typing import Any, Literal

import msgspec

Metadata = dict[str, str]


class CreateConversation(msgspec.Struct):
    """The body of `POST /v1/conversations`."""

    items: list[dict[str, Any]] | None = None
    metadata: Metadata | None = None


class UpdateConversation(msgspec.Struct):
    """The body of `POST /v1/conversations/{id}`."""

    metadata: Metadata | None


class AddItems(msgspec.Struct):
    """The body of `POST /v1/conversations/{id}/items`."""

    items: list[dict[str, Any]]


class ConversationObject(msgspec.Struct):
    """A conversation, without its items."""

    id: str
    created_at: int
    metadata: Metadata
    object: Literal["conversation"] = "conversation"


class ConversationDeleted(msgspec.Struct):
    """The answer of `DELETE /v1/conversations/{id}`."""

    id: str
    object: Literal["conversation.deleted"] = "conversation.deleted"
    deleted: bool = True
