"""Renders items of the Responses API as chat messages. Pure, and the same way every time.

A conversation is rendered group by group: the input of a turn, its output, the input of the next
turn. Items are joined into one message only within a group, so that the messages of a turn are a
prefix of the messages of every later turn, and an engine finds them in its cache.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from penstock.errors import InvalidRequest
from penstock.wire.apis.server_calls import (
    APPROVAL_REQUEST,
    APPROVAL_RESPONSE,
    SERVER_CALLS,
    UNSEEN,
    ModelCall,
    call_of,
)

Item = dict[str, Any]
Message = dict[str, Any]

_ROLES: Final = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    # Few chat templates know `developer`; those that do take `system` for the same.
    "developer": "system",
}
# What the model is told about a call that its user did not approve.
_DENIED: Final = "The user did not approve this call. It was not run."
_TEXTS: Final = frozenset({"input_text", "output_text", "text", "summary_text", "reasoning_text"})


def render(groups: Sequence[Sequence[Item]]) -> list[Message]:
    """Return the messages of a conversation, whose last group is the new input."""
    messages: list[Message] = []
    requests = approval_requests(groups)
    for number, items in enumerate(groups):
        # Errors name a place in the caller's own input.
        where = "input" if number == len(groups) - 1 else "previous_response_id"
        messages += _Group(where, requests).render(items)
    return messages


def approval_requests(groups: Sequence[Sequence[Item]]) -> dict[str, Item]:
    """Return the requests for approval of a conversation, by their ids."""
    items = (item for group in groups for item in group)
    return {str(item.get("id")): item for item in items if item.get("type") == APPROVAL_REQUEST}


def missing_outputs(groups: Sequence[Sequence[Item]]) -> list[str]:
    """Return the ids of function calls that no item answers; an engine would refuse them."""
    calls: dict[str, None] = {}
    for items in groups:
        for item in items:
            if item.get("type") == "function_call":
                calls[str(item.get("call_id"))] = None
            elif item.get("type") == "function_call_output":
                calls.pop(str(item.get("call_id")), None)
    return list(calls)


class _Group:
    """Renders the items of one group. What the model wrote in one go becomes one message."""

    def __init__(self, where: str, requests: Mapping[str, Item]) -> None:
        self._where = where
        self._requests = requests
        self._messages: list[Message] = []
        # The outputs of calls that ran here: they follow the message that has all calls of one
        # answer.
        self._outputs: list[Message] = []
        self._round = -1
        # The assistant's message that the next items may belong to.
        self._open: Message | None = None

    def render(self, items: Sequence[Item]) -> list[Message]:
        for index, item in enumerate(items):
            self._add(item, f"{self._where}.{index}")
        self._add_outputs()
        return self._messages

    def _add(self, item: Item, param: str) -> None:
        kind = item.get("type") or "message"
        if not isinstance(kind, str):
            raise InvalidRequest("`type` must be a text.", param=f"{param}.type")
        if kind in SERVER_CALLS:
            self._add_server_call(call_of(item))
            return
        if kind in UNSEEN:
            return
        self._add_outputs()
        if kind == "message":
            self._add_message(item, param)
        elif kind == "reasoning":
            self._add_reasoning(item, param)
        elif kind == "function_call":
            self._add_call(item, param)
        elif kind == "function_call_output":
            output = _plain_text(_needed(item, "output", param), f"{param}.output")
            self._close({"role": "tool", "tool_call_id": _text(item, "call_id", param)}, output)
        elif kind == APPROVAL_RESPONSE:
            self._add_denial(item, param)
        else:
            raise InvalidRequest(f"Items of type `{kind}` are not served here.", param=param)

    def _add_message(self, item: Item, param: str) -> None:
        role = _ROLES.get(item.get("role", ""))
        if role is None:
            raise InvalidRequest(
                "A message's `role` is user, assistant, system or developer.", param=f"{param}.role"
            )
        content = _needed(item, "content", param)
        if role != "assistant":
            self._close({"role": role}, _content(content, f"{param}.content"))
            return
        text = _plain_text(content, f"{param}.content")
        message = self._open
        if message is None or "content" in message or "tool_calls" in message:
            message = self._begin()
        message["content"] = text

    def _add_reasoning(self, item: Item, param: str) -> None:
        parts = item.get("content") or item.get("summary") or []
        text = _plain_text(parts, f"{param}.content")
        if not text:
            # Only the encrypted form was kept, which is another provider's.
            return
        message = self._open
        if message is None or message.keys() > {"role"}:
            message = self._begin()
        message["reasoning"] = text

    def _add_call(self, item: Item, param: str) -> None:
        name, arguments = _text(item, "name", param), _text(item, "arguments", param)
        self._append_call(ModelCall(_text(item, "call_id", param), name, arguments))

    def _add_server_call(self, call: ModelCall) -> None:
        if call.round < 0 or call.round != self._round:
            self._add_outputs()
        self._round = call.round
        self._append_call(call)
        output = {"role": "tool", "tool_call_id": call.id, "content": call.told}
        self._outputs.append(output)

    def _add_denial(self, item: Item, param: str) -> None:
        """Tell the model that a call was not approved; one that was is an item of its own."""
        request = self._requests.get(_text(item, "approval_request_id", param))
        if request is None:
            raise InvalidRequest(
                "This names no request for approval that goes before it.",
                param=f"{param}.approval_request_id",
            )
        if not item.get("approve"):
            call, reason = call_of(request), item.get("reason")
            told = f"{_DENIED} {reason}" if isinstance(reason, str) and reason else _DENIED
            self._add_server_call(ModelCall(call.id, call.name, call.arguments, told))

    def _append_call(self, call: ModelCall) -> None:
        message = self._open
        if message is None:
            message = self._begin()
        message.setdefault("tool_calls", []).append(
            {
                "id": call.id,
                "type": "function",
                # Some templates parse the arguments, and none takes an empty text for JSON.
                "function": {"name": call.name, "arguments": call.arguments or "{}"},
            }
        )

    def _add_outputs(self) -> None:
        """Add what the calls of the answer before have put out."""
        if self._outputs:
            self._open = None
            self._messages += self._outputs
            self._outputs = []

    def _begin(self) -> Message:
        self._open = {"role": "assistant"}
        self._messages.append(self._open)
        return self._open

    def _close(self, message: Message, content: object) -> None:
        """Add a message that is not the assistant's."""
        self._open = None
        self._messages.append({**message, "content": content})


def _content(content: object, param: str) -> object:
    """Return a chat message's content: a text, or parts if there is more than one text."""
    if isinstance(content, str):
        return content
    parts = [_part(part, f"{param}.{at}") for at, part in enumerate(_list(content, param))]
    if len(parts) == 1 and parts[0]["type"] == "text":
        return parts[0]["text"]
    return parts


def _part(part: Item, param: str) -> Item:
    kind = part.get("type")
    if kind in _TEXTS:
        return {"type": "text", "text": _text(part, "text", param)}
    if kind == "refusal":
        return {"type": "text", "text": _text(part, "refusal", param)}
    if kind == "input_image":
        if not part.get("image_url"):
            raise InvalidRequest("An image needs its `image_url`.", param=param)
        image = {"url": _text(part, "image_url", param)}
        if part.get("detail"):
            image["detail"] = _text(part, "detail", param)
        return {"type": "image_url", "image_url": image}
    raise InvalidRequest(f"Parts of type `{kind}` are not served here.", param=param)


def _plain_text(content: object, param: str) -> str:
    """Return the text of a content that may hold nothing else."""
    if isinstance(content, str):
        return content
    texts = []
    for at, part in enumerate(_list(content, param)):
        rendered = _part(part, f"{param}.{at}")
        if rendered["type"] != "text":
            raise InvalidRequest("Only text is served here.", param=f"{param}.{at}")
        texts.append(rendered["text"])
    return "".join(texts)


def _list(content: object, param: str) -> list[Item]:
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        raise InvalidRequest("This must be a text or a list of parts.", param=param)
    return content


def _needed(item: Item, name: str, param: str) -> object:
    value = item.get(name)
    if value is None:
        raise InvalidRequest(f"`{name}` is required.", param=f"{param}.{name}")
    return value


def _text(item: Item, name: str, param: str) -> str:
    value = _needed(item, name, param)
    if not isinstance(value, str):
        raise InvalidRequest(f"`{name}` must be a text.", param=f"{param}.{name}")
    return value
