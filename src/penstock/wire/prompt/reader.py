"""Reads chats with a memory of earlier turns: agents send the whole conversation again each turn.

The only entry point to the memory of prompts. The result does not depend on the memory: tests
compare every reading with one without it.
"""

from penstock.records.prompt_chain import PromptChain
from penstock.wire.json_body import Fields
from penstock.wire.prompt.chat_body import ChatBodyReader
from penstock.wire.prompt.family import PromptFamilies
from penstock.wire.prompt.learning import learn
from penstock.wire.prompt.media import Media
from penstock.wire.prompt.memory import PromptMemory
from penstock.wire.prompt.parsed_body import ParsedBody
from penstock.wire.prompt.prompt_suffix import read_suffix


class PromptReader:
    """One worker's reader. Holds all that is kept from one request to the next."""

    def __init__(self, memory: PromptMemory | None = None) -> None:
        self._memory = PromptMemory() if memory is None else memory
        self._bodies = ChatBodyReader()
        self._families = PromptFamilies()

    def read(self, account: str | None, body: bytes) -> ParsedBody:
        """Split a chat's body into fields and messages, reading only what is new to the account.

        With None as account this body is neither recognised nor remembered.
        """
        digests = None if account is None else self._memory.digests(account, body)
        known = None if digests is None else self._memory.find(digests)
        parsed = None if known is None else read_suffix(body, known)
        if parsed is None:
            parsed = self._bodies.read(body)
        parsed.digests = digests
        return parsed

    def learned(
        self, parsed: ParsedBody, root: int, chain: PromptChain, media: Media, image_bytes: int
    ) -> None:
        """Remember a prompt that was read and accepted, under the digests of its body."""
        if parsed.digests is not None:
            for known in learn(parsed, root, chain, media, image_bytes):
                self._memory.keep(parsed.digests, known)

    def family(self, fields: Fields, messages: list[Fields], parsed: ParsedBody | None) -> str:
        """Return the prompt family (`family.py`) of a request in any API."""
        return self._families.find(fields, messages, None if parsed is None else parsed.known)
