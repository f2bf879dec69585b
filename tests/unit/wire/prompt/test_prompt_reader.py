"""The one way into the memory of prompts: what it reads, and what it remembers."""

import msgspec

from penstock.records.prompt_chain import PromptChain
from penstock.wire.apis.chat import read_chat
from penstock.wire.prompt.chain import prompt_chain
from penstock.wire.prompt.media import Media
from penstock.wire.prompt.memory import LARGE_BYTES
from penstock.wire.prompt.parsed_body import ParsedBody
from penstock.wire.prompt.reader import PromptReader

ROOT = 5
PAD = "x" * LARGE_BYTES


def body_of(*contents: str) -> bytes:
    roles = ("system", *["user", "assistant"] * len(contents))
    said = [{"role": r, "content": c} for r, c in zip(roles, contents, strict=False)]
    return msgspec.json.encode({"model": "m", "messages": said})


def turn(reader: PromptReader, account: str | None, body: bytes) -> ParsedBody:
    """Read a body as a request is read, and let it be remembered."""
    parsed = reader.read(account, body)
    chain, media = _chain(parsed)
    reader.learned(parsed, ROOT, chain, media, 0)
    return parsed


def _chain(parsed: ParsedBody) -> tuple[PromptChain, Media]:
    prompt = read_chat(parsed.fields, frozenset(), parsed)
    chain = prompt_chain(ROOT, prompt.fields, prompt.messages, prompt.media, 0, parsed.known)
    return chain, prompt.media


def new_messages(parsed: ParsedBody) -> int:
    assert parsed.messages is not None
    return len(parsed.messages)


def test_only_new_messages_are_read_from_the_third_turn_on() -> None:
    reader = PromptReader()
    turns = [body_of("a", PAD, *["b", "c"] * number) for number in range(4)]
    assert [new_messages(turn(reader, "acme", body)) for body in turns] == [2, 4, 2, 2]


def test_a_turn_has_the_links_and_family_that_it_has_without_a_memory() -> None:
    reader = PromptReader()
    for number in range(4):
        parsed = turn(reader, "acme", body_of("a", PAD, *["b", "c"] * number))
    fresh = PromptReader()
    plain = fresh.read(None, body_of("a", PAD, *["b", "c"] * 3))
    assert parsed.known is not None
    assert _chain(parsed)[0] == _chain(plain)[0]
    assert plain.messages is not None
    family = reader.family(parsed.fields, parsed.messages or [], parsed)
    assert family == fresh.family(plain.fields, plain.messages, plain) != ""


def test_nothing_is_remembered_without_an_account() -> None:
    reader = PromptReader()
    body = body_of("a", PAD)
    assert [new_messages(turn(reader, None, body)) for _ in range(4)] == [2] * 4
    assert [new_messages(turn(reader, "acme", body)) for _ in range(3)] == [2, 2, 0]


def test_what_is_read_but_not_learned_is_not_remembered() -> None:
    reader = PromptReader()
    assert [new_messages(reader.read("acme", body_of("a", PAD))) for _ in range(4)] == [2] * 4
