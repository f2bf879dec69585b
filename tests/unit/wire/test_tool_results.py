"""Results of tools are found in each API's shape; every other byte stays as it was written."""

import json
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from penstock.records.request import Api
from penstock.wire.apis.tool_results import ResultEditor, edit_results, texts_of, with_texts

if TYPE_CHECKING:
    from penstock.wire.json_body import Fields

LONG: Final = "x" * 100
FIELD: Final = {Api.CHAT: "messages", Api.MESSAGES: "messages", Api.RESPONSES: "input"}


class Marking(ResultEditor):
    """Replaces every result, and notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bytes]] = []

    def edit(self, tool: str, content: Raw) -> bytes | None:
        self.asked.append((tool, bytes(content)))
        return b'"cut"'


def edited(api: Api, written: str, longer_than: int = 50) -> tuple[str, list[str]]:
    """Return the array after the edit, and the tools that were named."""
    marking = Marking()
    fields: Fields = {FIELD[api]: Raw(written.encode()), "model": Raw(b'"m"')}
    found = edit_results(api, fields, marking, longer_than)
    array = written if found is None else bytes(found[FIELD[api]]).decode()
    if found is not None:
        assert found["model"] is fields["model"]
        assert bytes(fields[FIELD[api]]).decode() == written
    return array, [tool for tool, _ in marking.asked]


def call(id: str, name: str) -> dict[str, Any]:
    calls = [{"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}}]
    return {"role": "assistant", "content": None, "tool_calls": calls}


SHAPES: list[tuple[Api, list[dict[str, Any]], str]] = [
    (Api.CHAT, [call("1", "ls"), {"role": "tool", "tool_call_id": "1", "content": LONG}], "ls"),
    # A chat in Workers AI's older shape, and OpenAI's legacy functions, name the tool themselves.
    (Api.CHAT, [{"role": "tool", "name": "ls", "content": LONG}], "ls"),
    (Api.CHAT, [{"role": "function", "name": "ls", "content": LONG}], "ls"),
    (Api.CHAT, [{"role": "tool", "tool_call_id": "9", "content": LONG}], ""),
    (Api.CHAT, [{"role": "tool", "content": [{"type": "text", "text": LONG}]}], ""),
    (Api.CHAT, [{"role": "assistant", "tool_calls": [
        {"id": "1", "type": None, "function": {"name": "ls"}}, {"id": None, "function": None}]},
                {"role": "tool", "tool_call_id": "1", "content": LONG}], "ls"),
    # Models that number their calls anew in each answer: the last one before counts.
    (Api.CHAT, [call("1", "cat"), call("1", "ls"),
                {"role": "tool", "tool_call_id": "1", "content": LONG}, call("1", "cat")], "ls"),
    (Api.RESPONSES, [{"type": "function_call", "call_id": "1", "name": "ls", "arguments": "{}"},
                     {"type": "function_call_output", "call_id": "1", "output": LONG}], "ls"),
    (Api.RESPONSES, [{"type": "custom_tool_call", "call_id": "1", "name": "ls", "input": ""},
                     {"type": "custom_tool_call_output", "call_id": "1", "output": LONG}], "ls"),
    (Api.RESPONSES, [{"type": "function_call_output", "call_id": "1", "output": LONG}], ""),
    (Api.RESPONSES, [{"type": "function_call", "name": "ls", "arguments": "{}"},
                     {"type": "function_call_output", "output": LONG}], ""),
    (Api.MESSAGES, [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "ls",
                                           "input": {}}]},
        {"role": "user", "content": [
            {"type": "text", "text": LONG},
            {"type": "tool_result", "tool_use_id": "1", "content": LONG},
        ]},
    ], "ls"),
]  # fmt: skip


@pytest.mark.parametrize("indent", [None, 0, 3])
@pytest.mark.parametrize(("api", "messages", "tool"), SHAPES)
def test_a_result_is_replaced_where_it_stands(
    api: Api, messages: list[dict[str, Any]], tool: str, indent: int | None
) -> None:
    written = json.dumps(messages, indent=indent)
    found, tools = edited(api, written)
    assert tools == [tool]
    assert found == json.dumps([replaced(message) for message in messages], indent=indent)


def replaced(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message with other results, as `Marking` replaces them."""
    if message.get("role") in ("tool", "function") or message.get("type") == "tool_result":
        return {**message, "content": "cut"}
    if str(message.get("type")).endswith("_output"):
        return {**message, "output": "cut"}
    if message.get("role") == "user":
        return {**message, "content": [replaced(block) for block in message["content"]]}
    return message


@pytest.mark.parametrize(
    ("api", "messages"),
    [
        (Api.CHAT, [{"role": "user", "content": LONG}, {"role": "assistant", "content": LONG}]),
        (Api.CHAT, [{"role": "tool", "content": "x" * 40, "other": LONG}]),
        (Api.CHAT, [{"role": "tool", "content": None, "other": LONG}]),
        (Api.RESPONSES, [{"type": "message", "role": "user", "content": LONG}]),
        (Api.RESPONSES, [{"role": "tool", "content": LONG}]),
        (Api.MESSAGES, [{"role": "user", "content": LONG}]),
        (Api.MESSAGES, [{"role": "user", "content": [{"type": "text", "text": LONG}]}]),
        (Api.MESSAGES, [{"role": "tool", "content": LONG}]),
        (Api.CHAT, []),
    ],
)
def test_other_messages_stay(api: Api, messages: list[dict[str, Any]]) -> None:
    written = json.dumps(messages)
    assert edited(api, written) == (written, [])


@pytest.mark.parametrize("api", list(FIELD))
@pytest.mark.parametrize(
    "written",
    [f'"{LONG}"', f"[{LONG}]", f'["{LONG}"]', f'[["{LONG}"]]', "null",
     f'[{{"role": 5, "content": "{LONG}"}}]',
     f'[{{"role": "assistant", "content": [5, "{LONG}"], "tool_calls": [5]}}]', "[" * 200],
)  # fmt: skip
def test_what_an_apis_reader_refuses_is_left_to_it(api: Api, written: str) -> None:
    assert edited(api, written) == (written, [])


def test_other_apis_have_no_results() -> None:
    fields: Fields = {"messages": Raw(b'[{"role":"tool","content":"%s"}]' % LONG.encode())}
    assert edit_results(Api.COMPLETIONS, fields, Marking(), 50) is None


@pytest.mark.parametrize(
    "message",
    [
        '{"role":"tool","content":"short","content":"LONG"}',
        '{"content":"LONG","role":"tool","content":"LONG"}',
        '{"role":"user","x":{"content":"LONG"},"role":"tool","content":"LONG"}',
    ],
)
def test_a_name_that_is_given_twice_counts_once(message: str) -> None:
    message = message.replace("LONG", LONG)
    found, _ = edited(Api.CHAT, f"[{message}]")
    expected = {**json.loads(message), "content": "cut"}
    assert json.loads(found) == [expected]


def test_names_and_roles_may_be_written_with_escapes() -> None:
    written = '[ {"r\\u006fle" : "to\\u006fl" ,\n"a\\"b":[1 ,2], "c\\u006fntent"\t: "LONG" } , {} ]'
    found, _ = edited(Api.CHAT, written.replace("LONG", LONG))
    assert found == written.replace("LONG", "cut")


FILLS = st.sampled_from(("", " ", "\n  ", "\t"))
NAMES = st.sampled_from(("role", "content", "name", 'a"b', "ü", "x"))
VALUES = st.sampled_from(
    ('"tool"', '"user"', f'"{LONG}"', f'["{LONG}"]', "1.50", "null", '"\\u00fc"')
)


@given(st.lists(st.lists(st.tuples(NAMES, VALUES, FILLS), max_size=6), max_size=4), FILLS)
def test_only_results_change_however_the_messages_are_written(
    messages: list[list[tuple[str, str, str]]], fill: str
) -> None:
    pairs_of = [
        [f"{gap}{json.dumps(name)}{gap}:{gap}{value}{gap}" for name, value, gap in each]
        for each in messages
    ]
    objects = [f"{{{','.join(pairs)}}}" for pairs in pairs_of]
    written = f"[{fill}" + f"{fill},{fill}".join(objects) + f"{fill}]"
    found, _ = edited(Api.CHAT, written)
    expected = json.loads(written)
    is_plain = True
    for message, pairs in zip(expected, messages, strict=True):
        is_plain = is_plain and len(message) == len(pairs)
        if message.get("role") == "tool" and len(json.dumps(message.get("content"))) > 50:
            message["content"] = "cut"
    assert json.loads(found) == expected
    if is_plain:
        assert len(written) - len(found) == sum(
            len(value) - len('"cut"')
            for message, pairs in zip(expected, messages, strict=True)
            for name, value, _ in pairs
            if name == "content" and message["content"] == "cut"
        )


IMAGE: Final = '{"type": "image_url",  "image_url": {"url": "data:,"}}'


@pytest.mark.parametrize(
    ("content", "texts", "changed"),
    [
        ('"a\\n"', ["a\n"], '"A"'),
        ('"\\ud800b"', ["?b"], '"A"'),
        ('[{"type":"text", "text": "a" ,"x":1.50}]', ["a"],
         '[{"type":"text", "text": "A" ,"x":1.50}]'),
        (f'[{{"text":"a"}},{IMAGE}, {{"text":"b"}},{{"text":null}}]', ["a", "b"],
         f'[{{"text":"A"}},{IMAGE},{{"text":"B"}},{{"text":null}}]'),
        ('[{"text":"a"},{"text":"b"},{"text":"c"}]', ["a", "b", "c"],
         '[{"text":"A"},{"text":"C"}]'),
        ("[]", [], "[]"),
        ('{"text":"a"}', [], None),
    ],
)  # fmt: skip
def test_texts_of_a_result_are_replaced_among_its_parts(
    content: str, texts: list[str], changed: str | None
) -> None:
    raw = Raw(content.encode())
    assert texts_of(raw) == texts
    if changed is not None:
        new = ["A", "B", "C"][: len(texts)]
        if len(texts) == 3:
            assert with_texts(raw, ["A", None, "C"]).decode() == changed
        else:
            assert with_texts(raw, new).decode() == changed


def test_finding_results_takes_time_in_proportion_to_the_messages() -> None:
    """Each of many long results is looked for once; none is searched for in the others."""
    messages: list[dict[str, Any]] = []
    for number in range(2000):
        messages += [call(str(number), "ls"),
                     {"role": "tool", "tool_call_id": str(number), "content": LONG}]  # fmt: skip
    marking = Marking()
    fields: Fields = {"messages": Raw(msgspec.json.encode(messages))}
    edit_results(Api.CHAT, fields, marking, 50)
    assert [tool for tool, _ in marking.asked] == ["ls"] * 2000
