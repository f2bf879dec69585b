"""The prompts of earlier turns: agents send the whole conversation again, and we read what is new.

A prompt is known again by a keyed digest of every byte up to the end of its last message. One that
comes once costs nothing: only its start is noted, and the rest when that comes again. Accounts
share nothing. All is bounded; what was not used for longest is forgotten first.
"""

import secrets
from collections import OrderedDict
from typing import Final

from xxhash import xxh3_64_intdigest

from penstock.wire.keyed_digest import HAS_SIPHASH, keyed_digest
from penstock.wire.known_prompt import KnownPrompt
from penstock.wire.large_body import LARGE_BYTES

PROMPTS_MAX: Final = 4096
# A link takes 12 bytes. 5 MB in all: 500 agents at their 400th message, with the turn before it.
WEIGHT_MAX: Final = 400_000
# Prompts that are the same up to their last piece, such as different questions about one
# long text. To try one costs 3 µs.
NEAR_MAX: Final = 16
# In all: one account could else make each look as long as all that it has stored.
TRIES_MAX: Final = 32
PIECE_BYTES: Final = 16 * 1024
STARTS_MAX: Final = 8192


class BodyDigests:
    """Digests of a body's first bytes, for any number of them, in one pass over it."""

    __slots__ = ("_body", "matched", "wholes")

    def __init__(self, body: bytes, seed: int) -> None:
        self._body = memoryview(body)
        # Which prompt this body begins with.
        self.matched: int | None = None
        # Each is the key of the next: none can be had without all the bytes before it.
        self.wholes = [seed]
        for end in range(PIECE_BYTES, len(body) + 1, PIECE_BYTES):
            seed = keyed_digest(seed, self._body[end - PIECE_BYTES : end])
            self.wholes.append(seed)

    def until(self, end: int) -> int:
        """The digest of the first `end` bytes."""
        pieces = end // PIECE_BYTES
        return keyed_digest(self.wholes[pieces], self._body[pieces * PIECE_BYTES : end])

    def pieces_before(self, end: int) -> int:
        """The digest of the whole pieces among them, by which a prompt is looked for."""
        return self.wholes[end // PIECE_BYTES]


class _Remembered:
    __slots__ = ("digest", "follows", "near", "prompt")

    def __init__(self, prompt: KnownPrompt, digest: int, near: int, follows: int | None) -> None:
        self.prompt = prompt
        self.digest = digest
        self.near = near
        # The prompt of the turn before.
        self.follows = follows


class PromptMemory:
    """One for each worker."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)
        self._by_digest: OrderedDict[int, _Remembered] = OrderedDict()
        # Those that are equal in all whole pieces; the one that was used last stands last.
        self._near: dict[int, list[_Remembered]] = {}
        self._weight = 0
        self._starts: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_digest)

    @property
    def weight(self) -> int:
        """That of all prompts together."""
        return self._weight

    def digests(self, account: str, body: bytes) -> BodyDigests | None:
        """None for a body that is short, or that begins like none before it."""
        if len(body) < LARGE_BYTES or not HAS_SIPHASH:
            return None
        seed = hash(self._secret + account.encode())
        return BodyDigests(body, seed) if self._has_begun(body, seed) else None

    def find(self, digests: BodyDigests) -> KnownPrompt | None:
        """A known prompt that the body begins with: the longest, give or take a piece."""
        tries = 0
        for whole in reversed(digests.wholes):
            alike = self._near.get(whole, ())
            for remembered in reversed(alike):
                tries += 1
                if tries > TRIES_MAX:
                    return None
                if digests.until(remembered.prompt.boundary) == remembered.digest:
                    self._use(remembered)
                    digests.matched = remembered.digest
                    return remembered.prompt
        return None

    def keep(self, digests: BodyDigests, prompt: KnownPrompt) -> None:
        """Remember it beside the one it goes on from, which another branch or a retry may need.

        That one's own predecessor has then served its turn.
        """
        digest, follows = digests.until(prompt.boundary), digests.matched
        if follows == digest:
            return
        if follows is not None and follows in self._by_digest:
            self._forget(self._by_digest[follows].follows)
        self._forget(digest)
        near = digests.pieces_before(prompt.boundary)
        remembered = _Remembered(prompt, digest, near, follows)
        self._by_digest[digest] = remembered
        self._weight += prompt.weight
        alike = self._near.setdefault(near, [])
        alike.append(remembered)
        if len(alike) > NEAR_MAX:
            self._forget(alike[0].digest)
        while len(self._by_digest) > PROMPTS_MAX or self._weight > WEIGHT_MAX:
            self._forget(next(iter(self._by_digest)))
        digests.matched = digest

    def _has_begun(self, body: bytes, seed: int) -> bool:
        # Nothing is taken over for an equal start alone, so here a fast digest is good enough.
        start = xxh3_64_intdigest(memoryview(body)[:LARGE_BYTES], seed % 2**64)
        if start in self._starts:
            self._starts.move_to_end(start)
            return True
        self._starts[start] = None
        if len(self._starts) > STARTS_MAX:
            self._starts.popitem(last=False)
        return False

    def _use(self, remembered: _Remembered) -> None:
        self._by_digest.move_to_end(remembered.digest)
        alike = self._near[remembered.near]
        alike.remove(remembered)
        alike.append(remembered)

    def _forget(self, digest: int | None) -> None:
        remembered = None if digest is None else self._by_digest.pop(digest, None)
        if remembered is None:
            return
        self._weight -= remembered.prompt.weight
        alike = self._near[remembered.near]
        alike.remove(remembered)
        if not alike:
            del self._near[remembered.near]
