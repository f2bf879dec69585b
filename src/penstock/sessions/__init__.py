"""Keeps responses for their callers: what was asked, what was answered, and what goes before it.

Promises: a response is kept whole or not at all; an account sees only its own; a chain of which a
member is gone is refused and never shortened. The only writer of `responses` and `stored_bytes`.
"""

from penstock.sessions.response_book import NewResponse, ResponseBook, StoredResponse
from penstock.sessions.response_ids import ResponseId
from penstock.sessions.response_upkeep import ResponseFacts, ResponseUpkeep
from penstock.sessions.settings import ResponsesSettings

__all__ = [
    "NewResponse",
    "ResponseBook",
    "ResponseFacts",
    "ResponseId",
    "ResponseUpkeep",
    "ResponsesSettings",
    "StoredResponse",
]
