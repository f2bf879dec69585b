"""The right to write into a conversation."""

import msgspec

from penstock.sessions.conversation_ids import ConversationId


class Tenure(msgspec.Struct, frozen=True):
    """Which conversation, and the number of this right: a newer one makes it worthless."""

    conversation: ConversationId
    epoch: int
