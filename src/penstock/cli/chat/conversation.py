"""A conversation: its messages, the request of the next turn, and its usage so far.

It uses no network and no screen.
"""

from decimal import Decimal
from typing import Any, Final

import msgspec

IMAGE_BYTES_MAX: Final = 8 * 2**20
_IMAGE_KINDS: Final = {
    ".gif": "image/gif",
    ".jpeg": "image/jpeg",
    ".jpg": "image/jpeg",
    ".png": "image/png",
    ".webp": "image/webp",
}


class TurnUsage(msgspec.Struct, frozen=True):
    """The usage of one turn, as the gateway reports it. None is unknown, never 0."""

    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: str | None = None


class Totals(msgspec.Struct):
    """The sums of a conversation, over the turns whose counts are known."""

    turns: int = 0
    prompt_tokens: int = 0
    # The prompts of which the engine said how much was cached.
    prompt_tokens_known: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost_usd: Decimal = Decimal(0)
    # Turns that were cut: the gateway tells the cost at the end of an answer.
    turns_without_cost: int = 0

    def add(self, usage: TurnUsage) -> None:
        self.turns += 1
        self.prompt_tokens += usage.prompt_tokens or 0
        if usage.cached_tokens is not None:
            self.prompt_tokens_known += usage.prompt_tokens or 0
        if usage.cost_usd is None:
            self.turns_without_cost += 1
        self.cached_tokens += usage.cached_tokens or 0
        self.output_tokens += usage.output_tokens or 0
        self.cost_usd += Decimal(usage.cost_usd or 0)


class Conversation:
    """Messages that grow turn by turn, so that each prompt begins with the one before."""

    def __init__(self, model: str, session: str, *, system: str = "", max_tokens: int = 0) -> None:
        self.model = model
        self.session = session
        self.system = system
        self.totals = Totals()
        self._max_tokens = max_tokens
        self._messages: list[dict[str, object]] = []
        # The items of answers with tools, by the places of their messages.
        self._outputs: dict[int, list[dict[str, Any]]] = {}
        self._images: list[str] = []

    @property
    def images(self) -> int:
        """Return how many images go with the next message."""
        return len(self._images)

    def attach(self, name: str, encoded: str) -> None:
        """Add a base64 image to the next message; ValueError for an unknown file suffix."""
        kind = next((kind for end, kind in _IMAGE_KINDS.items() if name.lower().endswith(end)), "")
        if not kind:
            raise ValueError(f"{name}: not one of {', '.join(_IMAGE_KINDS)}")
        self._images.append(f"data:{kind};base64,{encoded}")

    def body(self, text: str) -> bytes:
        """Return the request's body for the next turn. Nothing is kept until `said`."""
        system = [{"role": "system", "content": self.system}] if self.system else []
        request: dict[str, object] = {
            "model": self.model,
            "messages": [*system, *self._messages, self._user(text)],
            "stream": True,
            # With every chunk, so that an answer that is cut is counted too.
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        }
        if self._max_tokens:
            request["max_tokens"] = self._max_tokens
        return msgspec.json.encode(request)

    def tool_body(self, text: str, tools: list[dict[str, object]]) -> bytes:
        """Return the body of the next turn as a Responses request, with tools that run there."""
        given: list[object] = []
        for place, message in enumerate(self._messages):
            given += self._outputs.get(place) or [_as_input(message)]
        request: dict[str, object] = {
            "model": self.model,
            "input": [*given, _as_input(self._user(text))],
            "tools": tools,
            "include": ["code_interpreter_call.outputs"],
            # The conversation is here: the gateway need not keep it.
            "store": False,
            "stream": True,
        }
        if self.system:
            request["instructions"] = self.system
        if self._max_tokens:
            request["max_output_tokens"] = self._max_tokens
        return msgspec.json.encode(request)

    def said(
        self,
        text: str,
        answer: str,
        usage: TurnUsage,
        items: list[dict[str, Any]] | None = None,
    ) -> None:
        """Keep the message and the answer of a finished turn, with its items if it had tools."""
        self._messages += [self._user(text), {"role": "assistant", "content": answer}]
        if items:
            self._outputs[len(self._messages) - 1] = items
        self._images.clear()
        self.totals.add(usage)

    def restart(self, session: str) -> None:
        """Begin a new session without messages; the model and the system prompt stay."""
        self.session = session
        self._messages.clear()
        self._outputs.clear()
        self._images.clear()

    def _user(self, text: str) -> dict[str, object]:
        if not self._images:
            return {"role": "user", "content": text}
        parts: list[object] = [
            {"type": "image_url", "image_url": {"url": url}} for url in self._images
        ]
        return {"role": "user", "content": [*parts, {"type": "text", "text": text}]}


def _as_input(message: dict[str, Any]) -> dict[str, Any]:
    """Return a chat message as an input item of Responses."""
    content = message["content"]
    if isinstance(content, str):
        return message
    parts = [
        {"type": "input_text", "text": part["text"]}
        if part["type"] == "text"
        else {"type": "input_image", "image_url": part["image_url"]["url"]}
        for part in content
    ]
    return {**message, "content": parts}
