"""Keeps responses and conversations for their callers: what was asked, answered, and goes before.

Promises: a response is kept whole or not at all; an account sees only its own; a chain of which a
member is gone is refused and never shortened; one response at a time is written into a
conversation. The only writer of `responses`, `stored_bytes`, `turns`, `conversations` and
`conversation_items`.
"""

import msgspec

from penstock.sessions.conversation_book import ConversationBook, StoredConversation
from penstock.sessions.conversation_tenures import ConversationTenures
from penstock.sessions.conversation_upkeep import ConversationUpkeep
from penstock.sessions.response_book import (
    CONTINUED,
    NewResponse,
    ResponseBook,
    ResponseEnding,
    StoredResponse,
)
from penstock.sessions.response_ids import ResponseId
from penstock.sessions.response_upkeep import ResponseFacts, ResponseUpkeep
from penstock.sessions.settings import ConversationsSettings, ResponsesSettings
from penstock.sessions.tenure import Tenure
from penstock.sessions.turn_tenures import LostTurns, TurnTenures

__all__ = [
    "CONTINUED",
    "ConversationBook",
    "ConversationTenures",
    "ConversationUpkeep",
    "ConversationsSettings",
    "LostTurns",
    "NewResponse",
    "ResponseBook",
    "ResponseEnding",
    "ResponseFacts",
    "ResponseId",
    "ResponseUpkeep",
    "ResponsesSettings",
    "SessionBooks",
    "StoredConversation",
    "StoredResponse",
    "Tenure",
    "TurnTenures",
]


class SessionBooks(msgspec.Struct, frozen=True):
    """All that this room keeps, for those that write several of them in one transaction."""

    responses: ResponseBook
    conversations: ConversationBook
    tenures: ConversationTenures
    turns: TurnTenures
