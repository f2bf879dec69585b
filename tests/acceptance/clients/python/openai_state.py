"""The openai SDK on stored state: chains of responses, compaction, conversations."""

from collections.abc import Callable, Iterable
from typing import Any

from openai import APIStatusError, OpenAI
from openai.types.responses import Response
from tests.acceptance.clients.python.given import KEY, MODEL, URL, answer

client = OpenAI(base_url=f"{URL}/v1", api_key=KEY)
NAME, QUESTION, AGAIN = "My name is Ada.", "What is my name?", "Say it once more."


def chain() -> object:
    first = client.responses.create(model=MODEL, input=NAME)
    second = client.responses.create(model=MODEL, input=QUESTION, previous_response_id=first.id)
    with client.responses.stream(
        model=MODEL, input=AGAIN, previous_response_id=second.id
    ) as events:
        seen: list[Any] = list(events)
        third = events.get_final_response()
    return {
        "responses": [_shown(response) for response in (first, second, third)],
        "pieces": [event.delta for event in seen if event.type == "response.output_text.delta"],
        "created": seen[0].response.id,
    }


def kept() -> object:
    """A response that is shown, listed and deleted."""
    items: Any = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": NAME},
        {"role": "assistant", "content": "Hello, Ada."},
        {"role": "user", "content": QUESTION},
    ]
    made = client.responses.create(model=MODEL, input=items, metadata={"task": "names"})
    found = client.responses.retrieve(made.id)
    # Two on a page, so that the SDK asks for a second one.
    listed = client.responses.input_items.list(made.id, order="asc", limit=2)
    told = {"is_found": found == made, "metadata": found.metadata, "input": _texts(listed)}
    client.responses.delete(made.id)
    gone = [
        lambda: client.responses.retrieve(made.id),
        lambda: client.responses.input_items.list(made.id),
        lambda: client.responses.delete(made.id),
        lambda: client.responses.create(model=MODEL, input=QUESTION, previous_response_id=made.id),
    ]
    return {**told, "gone": [_error_of(ask) for ask in gone]}


def unstored() -> object:
    made = client.responses.create(model=MODEL, input=NAME, store=False)
    return _error_of(lambda: client.responses.retrieve(made.id))


def compact() -> object:
    first = client.responses.create(model=MODEL, input=NAME)
    compacted = client.responses.compact(model=MODEL, previous_response_id=first.id, input=QUESTION)
    items: list[Any] = [
        item.model_dump(exclude_unset=True, warnings=False) for item in compacted.output
    ]
    after = client.responses.create(model=MODEL, input=[*items, {"role": "user", "content": AGAIN}])
    last = client.responses.create(model=MODEL, input=QUESTION, previous_response_id=after.id)
    return {
        "object": compacted.object,
        "kinds": [item.type for item in compacted.output],
        "usage": compacted.usage.output_tokens,
        "text": last.output_text,
    }


def count() -> object:
    """Tokens as they are counted before, and as they are charged after."""
    first = client.responses.create(model=MODEL, input=NAME)
    told = []
    for previous in (None, first.id):
        counted = client.responses.input_tokens.count(
            model=MODEL, input=QUESTION, previous_response_id=previous
        )
        done = client.responses.create(model=MODEL, input=QUESTION, previous_response_id=previous)
        assert done.usage is not None
        told.append([counted.input_tokens, done.usage.input_tokens])
    return told


def items() -> object:
    """A conversation's items, added, listed, shown and deleted."""
    made = client.conversations.create(items=[_said("a")], metadata={"topic": "letters"})
    added: Any = client.conversations.items.create(made.id, items=[_said("b"), _said("c")])
    listed = client.conversations.items.list(made.id, order="asc", limit=2)
    told: dict[str, object] = {"is_found": client.conversations.retrieve(made.id) == made}
    told["listed"] = _texts(listed)
    second: Any = client.conversations.items.retrieve(added.data[0].id, conversation_id=made.id)
    told["second"] = _texts([second])
    client.conversations.items.delete(second.id, conversation_id=made.id)
    told["left"] = _texts(client.conversations.items.list(made.id, order="asc"))
    told["metadata"] = client.conversations.update(made.id, metadata={"topic": "z"}).metadata
    told["is_deleted"] = client.conversations.delete(made.id).deleted
    gone = [
        lambda: client.conversations.items.retrieve(second.id, conversation_id=made.id),
        lambda: client.conversations.retrieve(made.id),
        lambda: client.conversations.items.list(made.id),
        lambda: client.conversations.items.create(made.id, items=[_said("d")]),
        lambda: client.responses.create(model=MODEL, input=NAME, conversation=made.id),
    ]
    return {**told, "gone": [_error_of(ask) for ask in gone]}


def conversation() -> object:
    """Responses that go on from a conversation, and are appended to it."""
    made = client.conversations.create(items=[_said(NAME)])
    first = client.responses.create(model=MODEL, input=QUESTION, conversation=made.id)
    with client.responses.stream(model=MODEL, input=AGAIN, conversation=made.id) as events:
        second = events.get_final_response()
    client.responses.create(model=MODEL, input=NAME, conversation=made.id, store=False)
    assert first.conversation is not None
    return {
        "is_named": first.conversation.id == made.id,
        "texts": [first.output_text, second.output_text],
        "listed": _texts(client.conversations.items.list(made.id, order="asc")),
    }


def _said(text: str) -> Any:
    return {"type": "message", "role": "user", "content": text}


def _shown(response: Response) -> object:
    return {
        "id": response.id,
        "previous": response.previous_response_id,
        "text": response.output_text,
    }


def _texts(listed: Iterable[Any]) -> list[str]:
    return [item.content[0].text for item in listed]


def _error_of(ask: Callable[[], object]) -> object:
    try:
        ask()
    except APIStatusError as raised:
        return [type(raised).__name__, raised.code]
    return None


if __name__ == "__main__":
    answer(
        {
            "chain": chain,
            "kept": kept,
            "unstored": unstored,
            "compact": compact,
            "count": count,
            "items": items,
            "conversation": conversation,
        }
    )
