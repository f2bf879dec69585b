"""The load of a run: conversations of turns, which each add messages to the prompt. Pure.

Text is made of words of three letters, so that a word with its blank is four bytes and, in the
vocabularies of today's models, one token: so a prompt has the intended length.
"""

import hashlib
from collections.abc import Iterable
from functools import cache
from random import Random
from typing import Final

import msgspec

_LIST: Final = """
    act add age aid air all and any arm art ask bad bag bar bed big bit box boy bus but buy can car
    cat cup cut day dog dry ear eat egg end eye far few fit fly for fox fun gas get gun guy had has
    hat her him his hit hot how ice job key kid law lay leg let lie log lot low man map may men mix
    net new nor not now odd off oil old one our out own pay per pin put ran raw red run sat saw say
    sea see set she sit six sky son sun tax tea ten the tie tip too top toy try two use van war was
    way wet who why win yes yet you
"""
_WORDS: Final = tuple(_LIST.split())
# Texts are slices of one long text: choosing each word would delay the loop that measures.
_LONG_WORDS: Final = 2**13
_OPENING_WORDS: Final = 8


class BenchMessage(msgspec.Struct, frozen=True):
    """One message of the request's body."""

    role: str
    content: str


class BenchTurn(msgspec.Struct, frozen=True):
    """After `pause_seconds`, these messages are added to the conversation and answered."""

    messages: tuple[BenchMessage, ...]
    output_tokens: int
    pause_seconds: float = 0.0


class BenchConversation(msgspec.Struct, frozen=True):
    """Turns that grow one prompt; each waits for the answer before it."""

    session: str
    turns: tuple[BenchTurn, ...]
    # Seconds after the run's start; the start is later if too many others are under way.
    starts_at: float = 0.0


class Load(msgspec.Struct, frozen=True):
    """All conversations in the order of their start, and the number of their requests."""

    conversations: Iterable[BenchConversation]
    requests: int
    # In words, for the closing table.
    description: str


def text_of(tokens: int, *names: object) -> str:
    """Return about `tokens` tokens: equal names give equal text, others differ from the start."""
    name = ":".join(str(name) for name in names).encode()
    number = int.from_bytes(hashlib.blake2b(name, digest_size=8).digest())
    opening = []
    for _ in range(min(tokens, _OPENING_WORDS)):
        number, digit = divmod(number, len(_WORDS))
        opening.append(_WORDS[digit])
    long = _long_text()
    begin = number % _LONG_WORDS * 4
    wanted = max(tokens - len(opening), 0) * 4
    copies = -(-(begin + wanted) // len(long))
    return " ".join(opening) + (" " + (long * copies)[begin : begin + wanted]).rstrip()


@cache
def _long_text() -> str:
    random = Random(1)  # noqa: S311 - text to be repeated, no secret
    return "".join(f"{word} " for word in random.choices(_WORDS, k=_LONG_WORDS))
