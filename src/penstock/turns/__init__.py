"""Runs turns: what goes before a request, the tools that run here, what is kept of the answer.

Promises: a client that has the last byte of a stored response finds it by its id; what cannot be
stored says so itself; `store: false` writes nothing.
"""

from penstock.turns.background_responses import BackgroundResponses, PreparedEnding
from penstock.turns.stored_turns import StoredTurn, StoredTurns

__all__ = ["BackgroundResponses", "PreparedEnding", "StoredTurn", "StoredTurns"]
