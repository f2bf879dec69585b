"""Remembers the prompts of earlier turns, so that only the new messages of a turn are read.

A prompt is recognised by a keyed digest of every byte up to the end of its last message. A prompt
that comes once costs little: only its start is noted, and the rest when that start comes again.
Accounts share nothing. All is bounded; the least recently used is dropped first.
"""

import secrets
from collections import OrderedDict
from typing import Final

import xxhash

from penstock.wire.keyed_digest import HAS_SIPHASH, keyed_digest
from penstock.wire.prompt.chain import DIGEST_MAX
from penstock.wire.prompt.known_prompt import KnownPrompt

# Shorter bodies are not remembered: reading them again costs less than recognising them.
LARGE_BYTES: Final = 64 * 1024
PROMPTS_MAX: Final = 4096
# A link takes 12 bytes. 5 MB in all: 500 agents at their 400th message, with the turn before it.
WEIGHT_MAX: Final = 400_000
# Prompts that are the same up to their last piece, such as different questions about one
# long text.
NEAR_MAX: Final = 32
# How many prompts one search looks at (0.4 µs each), and of how many it makes the digest (3 to
# 12 µs each): without these bounds an account could make its searches as long as all it has stored.
LOOKS_MAX: Final = 128
TRIES_MAX: Final = 16
# The first piece is as long as the shortest body that is remembered.
PIECE_BYTES: Final = LARGE_BYTES
STARTS_MAX: Final = 8192
# Enough that questions which end alike still differ in them.
_LAST_BYTES: Final = 2048
_xxh3: Final = xxhash.xxh3_64_intdigest


class BodyDigests:
    """Keyed digests of a body's first bytes, for any number of them, in one pass over the body."""

    def __init__(self, body: bytes, seed: int) -> None:
        """Digest the first piece only: it decides whether the rest is worth digesting."""
        self._body = body
        # The last result of `last_before`: similar prompts often end at the same byte.
        self._last = 0
        self._last_end = -1
        # The digest of the known prompt that this body begins with.
        self.matched: int | None = None
        # Each digest is the key of the next, so every digest depends on all the bytes before it.
        self.wholes = [seed, self._part(seed, 0, PIECE_BYTES)]

    def go_on(self) -> None:
        """Digest the body up to the end of its last whole piece."""
        whole = self.wholes[1]
        for end in range(2 * PIECE_BYTES, len(self._body) + 1, PIECE_BYTES):
            whole = self._part(whole, end - PIECE_BYTES, end)
            self.wholes.append(whole)

    def until(self, end: int) -> int:
        """Return the digest of the first `end` bytes."""
        pieces = end // PIECE_BYTES
        return self._part(self.wholes[pieces], pieces * PIECE_BYTES, end)

    def pieces_before(self, end: int) -> int:
        """Return the digest of the whole pieces before `end`, by which prompts are looked up."""
        return self.wholes[end // PIECE_BYTES]

    def last_before(self, end: int) -> int:
        """Return a cheap, unkeyed digest of the last bytes before `end`: it only rules out."""
        if end != self._last_end:
            self._last = _xxh3(self._body[max(0, end - _LAST_BYTES) : end]) & DIGEST_MAX
            self._last_end = end
        return self._last

    def may_begin_with(self, remembered: "_Remembered") -> bool:
        end = remembered.boundary
        return end <= len(self._body) and self.last_before(end) == remembered.last

    def _part(self, key: int, start: int, end: int) -> int:
        return keyed_digest(key, memoryview(self._body)[start:end])


class _Remembered:
    def __init__(
        self, prompt: KnownPrompt, digests: BodyDigests, digest: int, follows: int | None
    ) -> None:
        self.prompt = prompt
        self.boundary = prompt.boundary
        self.digest = digest
        self.near = digests.pieces_before(self.boundary)
        self.last = digests.last_before(self.boundary)
        # The digest of the prompt of the turn before.
        self.follows = follows


class PromptMemory:
    """One worker's memory of prompts."""

    def __init__(
        self,
        *,
        prompts_max: int = PROMPTS_MAX,
        starts_max: int = STARTS_MAX,
        looks_max: int = LOOKS_MAX,
        tries_max: int = TRIES_MAX,
    ) -> None:
        self._prompts_max = prompts_max
        self._starts_max = starts_max
        self._looks_max = looks_max
        self._tries_max = tries_max
        self._secret = secrets.token_bytes(32)
        self._by_digest: OrderedDict[int, _Remembered] = OrderedDict()
        # Prompts that are equal in all whole pieces, the one that was used last at the end.
        self._near: dict[int, list[_Remembered]] = {}
        self._weight = 0
        self._starts: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_digest)

    @property
    def weight(self) -> int:
        """The weight of all prompts together."""
        return self._weight

    def digests(self, account: str, body: bytes) -> BodyDigests | None:
        """Return a body's digests; None if it is short, or begins like none before it."""
        if len(body) < LARGE_BYTES or not HAS_SIPHASH:
            return None
        seed = hash(self._secret + account.encode())
        digests = BodyDigests(body, seed)
        if not self._has_begun(digests.wholes[1]):
            return None
        digests.go_on()
        return digests

    def find(self, digests: BodyDigests) -> KnownPrompt | None:
        """Return the longest known prompt that the body begins with."""
        looks = tries = 0
        for whole in reversed(digests.wholes):
            alike = self._near.get(whole)
            if alike is None:
                continue
            looks += len(alike)
            if looks > self._looks_max:
                return None
            fitting = [one for one in alike if digests.may_begin_with(one)]
            if len(fitting) > 1:
                fitting.sort(key=_boundary, reverse=True)
            for remembered in fitting:
                tries += 1
                if tries > self._tries_max:
                    return None
                if digests.until(remembered.boundary) == remembered.digest:
                    self._use(remembered, alike)
                    digests.matched = remembered.digest
                    return remembered.prompt
        return None

    def keep(self, digests: BodyDigests, prompt: KnownPrompt) -> None:
        """Store a prompt beside the one it continues, which another branch or a retry may need.

        The predecessor of the continued one is dropped.
        """
        digest, follows = digests.until(prompt.boundary), digests.matched
        if follows == digest:
            return
        if follows is not None and follows in self._by_digest:
            self._forget(self._by_digest[follows].follows)
        self._forget(digest)
        remembered = _Remembered(prompt, digests, digest, follows)
        self._by_digest[digest] = remembered
        self._weight += prompt.weight
        alike = self._near.setdefault(remembered.near, [])
        alike.append(remembered)
        if len(alike) > NEAR_MAX:
            self._forget(alike[0].digest)
        while len(self._by_digest) > self._prompts_max or self._weight > WEIGHT_MAX:
            self._forget(next(iter(self._by_digest)))
        digests.matched = digest

    def _has_begun(self, start: int) -> bool:
        if start in self._starts:
            self._starts.move_to_end(start)
            return True
        self._starts[start] = None
        if len(self._starts) > self._starts_max:
            self._starts.popitem(last=False)
        return False

    def _use(self, remembered: _Remembered, alike: list[_Remembered]) -> None:
        self._by_digest.move_to_end(remembered.digest)
        # By identity and from the end, where its last use has put it.
        at = len(alike) - 1
        while alike[at] is not remembered:
            at -= 1
        alike.append(alike.pop(at))

    def _forget(self, digest: int | None) -> None:
        remembered = None if digest is None else self._by_digest.pop(digest, None)
        if remembered is None:
            return
        self._weight -= remembered.prompt.weight
        alike = self._near[remembered.near]
        alike.remove(remembered)
        if not alike:
            del self._near[remembered.near]


def _boundary(remembered: _Remembered) -> int:
    return remembered.boundary
