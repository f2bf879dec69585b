"""Forbidden tools are taken out of a request, or refuse it, in every API; others stay."""

from typing import Any

import msgspec
import pytest
from tests.unit.contracts.contract_readers import contract_reader
from tests.unit.contracts.contract_samples import KEY, TOP, function, user

from penstock.clock import new_id
from penstock.contracts.deciding import ContractDecision
from penstock.errors import ToolForbidden
from penstock.intake.caller_headers import CallerHeaders
from penstock.intake.request_reader import RequestReader
from penstock.intake.routes import find_route
from penstock.records.decision import DecisionVerdict
from penstock.records.request import InferenceRequest, RequestId

CHAT = b"/v1/chat/completions"
RESPONSES = b"/v1/responses"
MESSAGES = b"/v1/messages"
RUN = b"/client/v4/accounts/acme/ai/run"
HEADERS = CallerHeaders([(b"x-penstock-workflow", b"code-review")])
REQUEST = RequestId(new_id())
ONLY = '[tools]\ndefault = "deny"\nallow = ["read_*", "web_search*", "mcp__docs__find", "ns__a"]\n'
NAMED = {"name": "bash", "parameters": {"type": "object"}}
KEPT = b'{"type":"function" ,  "function":{"name":"read_file"}}'


def reader(tools: str, top: str = "", *, has_server_tools: bool = False) -> RequestReader:
    return contract_reader(f"{TOP}{top}\n{tools}", has_server_tools=has_server_tools)


def read(
    made: RequestReader, path: bytes, body: dict[str, Any] | bytes
) -> tuple[InferenceRequest, ContractDecision]:
    if not isinstance(body, bytes):
        body = msgspec.json.encode({"model": "big", **_prompt(path), **body})
    opened = made.open(find_route(path), HEADERS, KEY, body)
    request = made.read_prompt(REQUEST, HEADERS, opened)
    assert opened.contract is not None
    return request, opened.contract


def _prompt(path: bytes) -> dict[str, Any]:
    return {"input": "hi", "store": False} if path == RESPONSES else {"messages": [user("hi")]}


def tools_of(request: InferenceRequest) -> Any:
    body = request.prompt.body
    return msgspec.json.decode(body["tools"]) if "tools" in body else None


@pytest.mark.parametrize(
    ("path", "tool", "name"),
    [
        (CHAT, function("bash"), "bash"),
        (CHAT, {"type": "custom", "custom": {"name": "bash"}}, "bash"),
        (MESSAGES, {"name": "bash", "input_schema": {}}, "bash"),
        (MESSAGES, {"type": "bash_20250124", "name": "bash"}, "bash"),
        (RESPONSES, {"type": "function", **NAMED}, "bash"),
        (RESPONSES, {"type": "custom", "name": "bash"}, "bash"),
        (RESPONSES, {"type": "code_interpreter"}, "code_interpreter"),
        (RESPONSES, {"type": "mcp", "server_label": "other"}, "mcp__other__*"),
        (RESPONSES, {"type": "mcp", "server_label": "docs", "allowed_tools": ["drop"]},
         "mcp__docs__*"),
        (RUN + b"/big", NAMED, "bash"),
        (RUN + b"/big", function("bash"), "bash"),
    ],
)  # fmt: skip
def test_a_forbidden_tool_is_taken_out_whatever_its_kind(
    path: bytes, tool: dict[str, Any], name: str
) -> None:
    request, decision = read(reader(ONLY), path, {"tools": [tool], "tool_choice": "auto"})
    assert not {"tools", "tool_choice"} & request.prompt.body.keys()
    (effect,) = decision.effects
    assert (str(effect), effect.subjects) == ("tools=-1", (name,))
    assert effect.verdict is DecisionVerdict.CHANGE
    with pytest.raises(ToolForbidden, match="code-review@7"):
        read(reader(f'{ONLY}offered = "refuse"'), path, {"tools": [tool]})
    left, decision = read(reader(f'{ONLY}offered = "leave"'), path, {"tools": [tool]})
    assert (len(tools_of(left)), decision.effects) == (1, [])


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "web_search_preview"},
        {"type": "mcp", "server_label": "docs"},
        {"type": "mcp", "server_label": "docs", "allowed_tools": {"tool_names": ["find", "x"]}},
    ],
)
def test_an_allowed_tool_of_another_kind_is_kept(tool: dict[str, Any]) -> None:
    request, decision = read(reader(ONLY), RESPONSES, {"tools": [tool]})
    assert tools_of(request) == [tool]
    assert decision.effects == []


@pytest.mark.parametrize(
    ("path", "tool"),
    [
        (RESPONSES, {"type": "function", "name": "bash", "function": {"name": "read_file"}}),
        (RESPONSES, {"type": "custom", "custom": {"name": "read_file"}, "name": "bash"}),
        (CHAT, {"type": "function", "function": {"name": "bash"}, "name": "read_file"}),
        (CHAT, {**function("bash"), "mcp_server_name": "docs"}),
        (MESSAGES, {"name": "bash", "input_schema": {}, "mcp_server_name": "docs"}),
        (RESPONSES, {"type": "mcp", "server_label": "docs", "name": "bash"}),
    ],
)
def test_a_second_name_does_not_hide_a_forbidden_tool(path: bytes, tool: dict[str, Any]) -> None:
    request, decision = read(reader(ONLY), path, {"tools": [tool]})
    assert tools_of(request) is None
    assert decision.effects[0].subjects == ("bash",)


def test_of_a_namespace_the_allowed_functions_are_left() -> None:
    inner = [{"type": "function", "name": name} for name in "ab"]
    namespace = {"type": "namespace", "name": "ns", "tools": inner}
    request, decision = read(reader(ONLY), RESPONSES, {"tools": [namespace]})
    assert tools_of(request) == [{**namespace, "tools": inner[:1]}]
    assert decision.effects[0].subjects == ("ns__b",)
    none = {**namespace, "tools": inner[1:]}
    assert tools_of(read(reader(ONLY), RESPONSES, {"tools": [none]})[0]) is None


def test_what_is_left_stays_as_it_was_written() -> None:
    body = b'{"model":"big","messages":[{"role":"user","content":"hi"}],"tools":[%s, %s,%s]}'
    bash = b'{"type":"function","function":{"name":"bash"}}'
    request, _ = read(reader(ONLY), CHAT, body % (bash, KEPT, bash))
    assert bytes(request.prompt.body["tools"]) == b"[" + KEPT + b"]"


def test_functions_of_the_older_form_are_judged() -> None:
    body = {"functions": [NAMED, {"name": "read_file"}], "function_call": "auto"}
    request, _ = read(reader(ONLY), CHAT, body)
    assert msgspec.json.decode(request.prompt.body["functions"]) == [{"name": "read_file"}]
    assert "function_call" in request.prompt.body
    request, _ = read(reader(ONLY), CHAT, {**body, "functions": [NAMED]})
    assert not {"functions", "function_call"} & request.prompt.body.keys()


@pytest.mark.parametrize(
    ("path", "choice"),
    [
        (CHAT, {"tool_choice": {"type": "function", "function": {"name": "bash"}}}),
        (CHAT, {"function_call": {"name": "bash"}}),
        (CHAT, {"tool_choice": {"type": "allowed_tools", "allowed_tools": {
            "mode": "auto", "tools": [function("read_file"), function("bash")]}}}),
        (RESPONSES, {"tool_choice": {"type": "function", "name": "bash"}}),
        (RESPONSES, {"tool_choice": {"type": "code_interpreter"}}),
        (RESPONSES, {"tool_choice": {"type": "mcp", "server_label": "docs", "name": "drop"}}),
        (RESPONSES, {"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [
            {"type": "function", "name": "bash"}]}}),
        (MESSAGES, {"tool_choice": {"type": "tool", "name": "bash"}}),
        (RESPONSES, {"tool_choice": {"type": "function", "name": "bash",
            "function": {"name": "read_file"}}}),
        (CHAT, {"tool_choice": {**function("bash"), "tools": [{"name": "read_file"}]}}),
        (CHAT, {"tool_choice": {**function("bash"), "allowed_tools": {"tools": []}}}),
        (CHAT, {"tools": [function("bash")], "tool_choice": "required"}),
        (MESSAGES, {"tools": [{"name": "bash"}], "tool_choice": {"type": "any"}}),
    ],
)  # fmt: skip
def test_a_forbidden_tool_that_is_demanded_refuses_the_request(
    path: bytes, choice: dict[str, Any]
) -> None:
    with pytest.raises(ToolForbidden) as refused:
        read(reader(ONLY), path, choice)
    assert "read_*" in refused.value.message
    _, decision = read(reader(ONLY, 'mode = "observe"'), path, choice)
    assert [effect.verdict for effect in decision.effects] == [DecisionVerdict.DENY]


@pytest.mark.parametrize(
    "choice", ["auto", "none", "required", {"type": "function", "function": {"name": "read_file"}}]
)
def test_a_choice_of_what_is_left_stays(choice: Any) -> None:
    tools = [function("bash"), function("read_file")]
    request, _ = read(reader(ONLY), CHAT, {"tools": tools, "tool_choice": choice})
    assert msgspec.json.decode(request.prompt.body["tool_choice"]) == choice


def test_what_only_observes_takes_nothing_out() -> None:
    request, decision = read(reader(ONLY, 'mode = "observe"'), CHAT, {"tools": [function("bash")]})
    assert tools_of(request) == [function("bash")]
    assert list(map(str, decision.effects)) == ["tools=-1"]


def test_a_request_carries_the_terms_of_its_contract() -> None:
    request, _ = read(reader(ONLY), CHAT, {})
    assert request.tool_terms is not None
    assert request.tool_terms.label == "code-review@7"
    assert read(reader(""), CHAT, {})[0].tool_terms is None


@pytest.mark.parametrize(
    "choice", [{"type": "auto", "tools": 5}, {"type": {"a": 1}}, {"type": ["x"]}, 5, [{}]]
)
def test_a_choice_of_no_known_form_is_left_to_its_reader(choice: Any) -> None:
    request, _ = read(reader(ONLY), CHAT, {"tool_choice": choice})
    assert msgspec.json.decode(request.prompt.body["tool_choice"]) == choice


@pytest.mark.parametrize(
    "tools",
    [5, "x", [5], [None], {"a": 1}, [[]], [{"type": "namespace", "name": "ns", "tools": [5]}]],
)
def test_tools_of_no_known_form_are_left_to_their_reader(tools: Any) -> None:
    opened = reader(ONLY).open(
        find_route(RESPONSES),
        HEADERS,
        KEY,
        msgspec.json.encode({"model": "big", "input": "hi", "store": False, "tools": tools}),
    )
    assert msgspec.json.decode(opened.fields["tools"]) == tools


def test_a_conversation_goes_on_with_the_same_tools_and_the_same_chain() -> None:
    """Also where the worker remembers its earlier turns: as a new worker reads it."""
    remembering = reader(ONLY)
    tools = [function("bash"), function("read_file"), function("sh")]
    messages: list[dict[str, Any]] = [user("x" * 40_000)]
    sent = set()
    for turn in range(4):
        body = {"tools": tools, "messages": messages}
        request, _ = read(remembering, CHAT, body)
        fresh, _ = read(reader(ONLY), CHAT, body)
        left, _ = read(reader(ONLY), CHAT, {**body, "tools": [function("read_file")]})
        sent.add(bytes(request.prompt.body["tools"]))
        links = [one.prompt.chain.sizes for one in (request, fresh, left)]
        assert links[0] == links[1] == links[2]
        families = {one.labels.prompt_family for one in (request, fresh, left)}
        assert len(families) == 1
        messages += [{"role": "assistant", "content": f"so {turn}"}, user("go on")]
    assert sent == {b"[" + msgspec.json.encode(function("read_file")) + b"]"}


def test_chains_of_turns_with_tools_taken_out_begin_alike() -> None:
    remembering = reader(ONLY)
    first = {"tools": [function("bash"), function("read_file")], "messages": [user("x" * 40_000)]}
    one, _ = read(remembering, CHAT, first)
    more = [*first["messages"], {"role": "assistant", "content": "so"}, user("go on")]
    other, _ = read(remembering, CHAT, {**first, "messages": more})
    assert other.prompt.chain.links[: len(one.prompt.chain.links)] == one.prompt.chain.links


def test_functions_of_tools_that_run_here_are_judged_by_their_own_names() -> None:
    made = reader(ONLY)
    body = {"model": "big", "messages": [user("hi")], "tools": [function("docs__find")]}
    opened = made.open(find_route(CHAT), HEADERS, KEY, msgspec.json.encode(body))
    opened.name_tool("docs__find", "mcp__docs__find")
    request = made.read_prompt(REQUEST, HEADERS, opened)
    assert tools_of(request) == [function("docs__find")]
    assert request.tool_terms is not None
    assert request.tool_terms.allows("docs__find")
    assert not request.tool_terms.allows("docs__drop")


def test_server_tools_are_judged_before_they_become_functions() -> None:
    made = reader(ONLY, has_server_tools=True)
    tools = [{"type": "code_interpreter", "container": {"type": "auto"}}]
    body = {"model": "big", "input": "hi", "store": False, "tools": tools}
    opened = made.open(find_route(RESPONSES), HEADERS, KEY, msgspec.json.encode(body))
    assert opened.tools is None
    assert "tools" not in opened.fields
