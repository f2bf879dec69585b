"""Texts for completions and embeddings: what is read of them, what is refused, what goes on."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import EngineFailed, InvalidRequest
from penstock.records.model import Capability
from penstock.wire.apis.completions import read_completions
from penstock.wire.apis.embeddings import read_embeddings, workers_ai_embeddings
from penstock.wire.apis.prompt_request import PromptRequest
from penstock.wire.json_body import read_fields
from penstock.wire.prompt.chain import prompt_chain

NO_HOSTS = frozenset[str]()
CHAT = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x/"}}]}


def completion(**fields: object) -> PromptRequest:
    return read_completions(read_fields(json.dumps({"model": "m", **fields}).encode()), NO_HOSTS)


def embedding(**fields: object) -> PromptRequest:
    return read_embeddings(read_fields(json.dumps({"model": "m", **fields}).encode()), NO_HOSTS)


@pytest.mark.parametrize(
    ("prompt", "count", "least_bytes"),
    [("hello", 1, 7), (["a", "b"], 2, 9), ([7, 8, 9], 1, 12), ([[7, 8], [9]], 2, 12)],
)
def test_texts_come_as_one_or_several_as_words_or_as_ids(
    prompt: object, count: int, least_bytes: int
) -> None:
    asked = completion(prompt=prompt)
    assert (asked.prompts, asked.choices) == (count, count)
    assert asked.prompt_bytes >= least_bytes
    assert json.loads(bytes(asked.fields["prompt"])) == prompt
    wanted = embedding(input=prompt)
    assert (wanted.prompts, wanted.max_tokens) == (count, 0)


@pytest.mark.parametrize(
    "wrong", [None, "", [], [CHAT], [[CHAT]], {"a": 1}, 7, True, [1.5], [None]]
)
def test_whatever_is_no_text_is_refused_by_name(wrong: object) -> None:
    with pytest.raises(InvalidRequest) as refused:
        completion(prompt=wrong)
    assert refused.value.param == "prompt"
    with pytest.raises(InvalidRequest) as refused:
        embedding(input=wrong)
    assert refused.value.param == "input"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, "prompt"),
        ({"prompt": "a", "prompt_embeds": "AAAA"}, "prompt_embeds"),
        ({"prompt": ["a", "b"], "stream": True}, "prompt"),
        ({"prompt": ["a"] * 129}, "prompt"),
        ({"prompt": ["a", "b"], "n": 65}, "n"),
        ({"prompt": "a", "stream": 1}, "stream"),
        ({"prompt": "a", "max_tokens": -1}, "max_tokens"),
        ({"prompt": "a", "stream_options": {"include_usage": True}}, "stream_options"),
    ],
)
def test_a_wrong_completion_is_refused_by_name(fields: dict[str, object], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        completion(**fields)
    assert refused.value.param == param


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, "input"),
        ({"messages": [CHAT]}, "messages"),
        ({"input": "a", "messages": [CHAT]}, "messages"),
        ({"input": ["a"] * 2049}, "input"),
        ({"input": "a", "text": "a"}, "text"),
        ({"text": "a", "pooling": "cls"}, "pooling"),
        ({"input": "a", "encoding_format": "bytes"}, "encoding_format"),
    ],
)
def test_a_wrong_request_for_embeddings_is_refused_by_name(
    fields: dict[str, object], param: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        embedding(**fields)
    assert refused.value.param == param


def test_a_completion_says_what_it_needs_and_wants() -> None:
    schema = {"type": "json_schema", "json_schema": {"type": "object"}}
    asked = completion(
        prompt="a",
        n=3,
        max_tokens=9,
        stream=True,
        stream_options={"include_usage": True},
        response_format=schema,
        prompt_cache_key="k",
        options={"rejectIfBusy": True},
    )
    assert (asked.choices, asked.max_tokens, asked.is_stream, asked.wants_usage) == (
        3,
        9,
        True,
        True,
    )
    assert (asked.cache_key, asked.rejects_if_busy) == ("k", True)
    assert asked.needs == {Capability.STRUCTURED_OUTPUT}
    assert "options" not in asked.fields


def test_embeddings_are_never_streamed_and_text_is_another_name_of_input() -> None:
    wanted = embedding(text=["a", "b"], stream=True, stream_options={"include_usage": True})
    assert not wanted.is_stream
    assert wanted.fields.keys() == {"model", "input"}


def _links(text: str) -> tuple[int, ...]:
    asked = completion(prompt=text)
    return prompt_chain(1, asked.fields, asked.messages, asked.media, 0).links


def test_a_text_that_grew_shares_the_links_of_its_beginning() -> None:
    start = "water " * 2000
    grown = _links(start + "and more")
    shared = [one == two for one, two in zip(_links(start), grown, strict=False)]
    assert shared[:-1] == [True, True, True]
    assert grown != _links("x" + start + "and more")


@given(st.text(min_size=1, max_size=20_000))
def test_the_parts_of_a_text_are_all_of_it_in_its_order(text: str) -> None:
    asked = completion(prompt=text)
    whole = b"".join(bytes(part["content"]) for part in asked.messages)
    assert json.loads(whole) == text


def test_vectors_are_told_with_their_dimensions_as_the_engine_wrote_them() -> None:
    answer = b'{"data":[{"index":0,"embedding":[0.10,-2e-3]},{"index":1,"embedding":[1,2]}]}'
    assert workers_ai_embeddings(answer) == b'{"shape":[2,2],"data":[[0.10,-2e-3],[1,2]]}'
    packed = b'{"data":[{"embedding":"AACAPwAAAEA="}]}'
    assert workers_ai_embeddings(packed) == b'{"shape":[1,2],"data":["AACAPwAAAEA="]}'


@pytest.mark.parametrize(
    "answer",
    [b"{}", b'{"data":[]}', b'{"data":[{"embedding":{}}]}', b'{"data":[{"embedding":"?"}]}'],
)
def test_an_answer_without_vectors_is_the_engines_failure(answer: bytes) -> None:
    with pytest.raises(EngineFailed):
        workers_ai_embeddings(answer)
