"""A Messages request: what is read is strict, media are checked, the rest goes on untouched."""

import json
from typing import Any

import pytest

from penstock.errors import BadBase64, InvalidRequest
from penstock.records.model import Capability
from penstock.records.prompt_chain import PromptChain
from penstock.wire.apis.anthropic import read_messages
from penstock.wire.apis.prompt_request import PromptRequest
from penstock.wire.json_body import read_fields, write_fields
from penstock.wire.prompt.chain import prompt_chain
from penstock.wire.prompt.family import PromptFamilies

NO_HOSTS = frozenset[str]()
USER = {"role": "user", "content": "hi"}
TOOL = {"name": "f", "input_schema": {"type": "object"}}
PIXEL = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}


def read(*, hosts: frozenset[str] = NO_HOSTS, **fields: object) -> PromptRequest:
    body = {"model": "m", "messages": [USER], "max_tokens": 5, **fields}
    return read_messages(read_fields(json.dumps(body).encode()), hosts)


def chain(**fields: Any) -> PromptChain:
    asked = read(**fields)
    return prompt_chain(1, asked.fields, asked.messages, asked.media, 3000)


def image(source: object) -> list[dict[str, object]]:
    return [{"role": "user", "content": [{"type": "image", "source": source}]}]


def test_request_goes_on_as_it_came() -> None:
    body = {"model": "m", "messages": [USER], "max_tokens": 5, "system": "s", "top_k": 3}
    asked = read_messages(read_fields(json.dumps(body).encode()), NO_HOSTS)
    assert json.loads(write_fields(asked.fields)) == body
    assert (asked.max_tokens, asked.max_tokens_field) == (5, "max_tokens")
    assert asked.needs == frozenset()


@pytest.mark.parametrize(
    ("fields", "needs"),
    [
        ({"tools": [TOOL]}, {Capability.TOOLS}),
        ({"messages": image(PIXEL)}, {Capability.VISION}),
        ({"output_config": {"format": {"type": "json_schema"}}}, {Capability.STRUCTURED_OUTPUT}),
        ({"output_config": {"effort": "low"}}, set()),
        ({"output_config": None, "system": None, "tools": None}, set()),
    ],
)
def test_capabilities_are_those_that_are_asked_for(fields: Any, needs: set[Capability]) -> None:
    assert read(**fields).needs == needs


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": 5}, "messages"),
        ({"messages": [{"role": "user", "content": ["a"]}]}, "messages.0.content"),
        ({"messages": image("http://a/")}, "messages.0.content"),
        ({"system": ["a"]}, "system"),
        ({"stream": "true"}, "stream"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"output_config": 5}, "output_config"),
    ],
)
def test_what_is_wrong_is_refused_by_name(fields: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read(**fields)
    assert refused.value.param == param


@pytest.mark.parametrize("kind", ["url", "base64", "file"])
def test_address_is_fetched_from_listed_hosts_only_whatever_its_type(kind: str) -> None:
    source = {"type": kind, "url": "https://pictures/x.png"}
    nested = [{"type": "tool_result", "content": [{"type": "image", "source": source}]}]
    for messages in (image(source), [{"role": "user", "content": nested}]):
        with pytest.raises(InvalidRequest, match="media_hosts"):
            read(messages=messages)
        assert read(messages=messages, hosts=frozenset({"pictures"})).images == 1
    with pytest.raises(InvalidRequest, match="`system`"):
        read(system=[{"type": "image", "source": source}])


def test_inline_image_must_be_base64_of_a_picture() -> None:
    with pytest.raises(BadBase64):
        read(messages=image({**PIXEL, "data": "***"}))
    with pytest.raises(InvalidRequest, match="SVG"):
        read(messages=image({**PIXEL, "media_type": "image/svg+xml"}))


def test_prompt_is_weighed_with_system_and_tools_and_without_images() -> None:
    plain = read().prompt_bytes
    assert read(system="x" * 1000).prompt_bytes >= plain + 1000
    assert read(tools=[{**TOOL, "description": "y" * 1000}]).prompt_bytes >= plain + 1000
    assert read(messages=image({**PIXEL, "data": "A" * 4000})).prompt_bytes < 200


def test_chain_is_system_tools_and_then_messages() -> None:
    said = {"role": "assistant", "content": [{"type": "text", "text": "ho"}]}
    short = chain(system="s")
    long = chain(system="s", messages=[USER, said, USER])
    assert long.links[: len(short.links)] == short.links
    assert long.earlier == len(short.links)
    assert long.has_system
    for other in ({"system": "t"}, {"system": "s", "tools": [TOOL]}, {}):
        changed = chain(messages=[USER, said, USER], **other)
        assert not set(changed.links[1:]) & set(long.links)
    request = read(system="s", tools=[TOOL])
    assert PromptFamilies().find(request.fields, request.messages)
