"""What the engine receives: the caller's fields as they were written, and what is ours to set."""

import hashlib
import json
import re
from typing import Any

import pytest
from tests.integration.cells.gateway_answers import check_request_id
from tests.integration.cells.gateway_cell import CHAT, NATIVE, SERVED, Cell, chat_body, prompt

from penstock.testing import ScriptedEngine

_V1 = "/v1/chat/completions"
_DROPPED: dict[str, Any] = {
    "priority": -1,
    "cache_salt": "mine",
    "session_id": "mine",
    "request_id": "mine",
    "kv_transfer_params": {"remote": "somewhere"},
    "ec_transfer_params": {},
    "vllm_xargs": {"a": "b"},
    "metadata": {"workflow": "w"},
    "user": "u",
    "store": True,
    "service_tier": "auto",
    "prompt_cache_key": "key",
}


def _last(engine: ScriptedEngine) -> tuple[str, dict[str, str]]:
    last = engine.state().last_request
    assert last is not None
    return last["body"], last["headers"]


def _pairs(body: str) -> list[tuple[str, Any]]:
    """The top level as it was written: a name given twice is there twice."""
    levels: list[list[tuple[str, Any]]] = []

    def keep(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        levels.append(pairs)
        return dict(pairs)

    json.loads(body, object_pairs_hook=keep)
    return levels[-1]


def test_messages_and_tools_arrive_byte_for_byte(cell: Cell, engine: ScriptedEngine) -> None:
    messages = '[ {"role" : "user",\n "content":"\\u00e9 \\/ é 🌊 1.0e+2" , "x":1.50}]'
    tools = '[{"type":"function", "function":{"name":"look","parameters":{ "type":"object"}}} ]'
    body = f'{{"model":"{CHAT}", "messages" : {messages},"tools":{tools},"temperature":0.10}}'
    for stream in ("false", "true"):
        sent = body[:-1] + f',"stream":{stream}}}'
        assert cell.post(_V1, sent.encode()).status_code == 200
        received, _ = _last(engine)
        assert f'"messages":{messages}' in received
        assert f'"tools":{tools}' in received
        assert '"temperature":0.10' in received


@pytest.mark.parametrize("size", [100, 20_000, 1_000_000])
def test_large_prompts_arrive_whole(cell: Cell, engine: ScriptedEngine, size: int) -> None:
    words = "naïve " * (size // 6)
    assert cell.chat({"model": CHAT, "messages": prompt(text=words)}).status_code == 200
    received, headers = _last(engine)
    assert json.loads(received)["messages"] == prompt(text=words)
    assert int(headers["content-length"]) == len(received.encode())


def test_a_name_given_twice_goes_up_once(cell: Cell, engine: ScriptedEngine) -> None:
    body = (
        f'{{"model":"nobody","model":"{CHAT}","stream":true,"stream":false,"n":3,"n":1,'
        '"messages":[],"messages":[{"role":"user","content":"last"}],'
        '"cache_salt":"a","cache_salt":"b","mod\\u0065l":"' + CHAT + '"}'
    )
    assert cell.post(_V1, body.encode()).status_code == 200
    received, _ = _last(engine)
    names = [name for name, _ in _pairs(received)]
    assert len(names) == len(set(names))
    assert json.loads(received)["messages"] == [{"role": "user", "content": "last"}]


def test_reserved_names_are_ours(cell: Cell, engine: ScriptedEngine) -> None:
    options = {"include_usage": False}
    body = chat_body(stream=True, stream_options=options, **_DROPPED)
    assert cell.chat(body).status_code == 200
    received = json.loads(_last(engine)[0])
    assert received.keys() == {
        "model", "messages", "stream", "stream_options", "cache_salt", "session_id", "max_tokens",
    }  # fmt: skip
    assert received["model"] == SERVED
    assert received["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
    assert re.fullmatch("[0-9a-f]{64}", received["cache_salt"])
    # `prompt_cache_key` names the session, but two accounts may use one name.
    assert re.fullmatch("[0-9a-f]{16}", received["session_id"])


def test_nothing_is_added_that_is_not_needed(cell: Cell, engine: ScriptedEngine) -> None:
    assert cell.chat(chat_body(max_tokens=5)).status_code == 200
    wanted = {"model", "messages", "cache_salt", "max_tokens"}
    assert json.loads(_last(engine)[0]).keys() == wanted


@pytest.mark.parametrize(
    ("said", "sent"),
    [
        ({}, {"max_tokens": 4096}),
        ({"max_tokens": None}, {"max_tokens": 4096}),
        ({"max_tokens": 9}, {"max_tokens": 9}),
        ({"max_completion_tokens": 9}, {"max_completion_tokens": 9}),
        (
            {"max_completion_tokens": 9, "max_tokens": 8},
            {"max_completion_tokens": 9, "max_tokens": 8},
        ),
    ],
)
def test_an_answer_without_a_limit_gets_the_catalogues(
    cell: Cell, engine: ScriptedEngine, said: dict[str, Any], sent: dict[str, int]
) -> None:
    assert cell.chat(chat_body(**said)).status_code == 200
    received = json.loads(_last(engine)[0])
    limits = {name: value for name, value in received.items() if name.startswith("max_")}
    assert {name: value for name, value in limits.items() if value is not None} == sent


def test_unknown_fields_are_the_engines_to_judge(cell: Cell, engine: ScriptedEngine) -> None:
    extra: dict[str, Any] = {
        "chat_template_kwargs": {"a": False},
        "repetition_penalty": 1.1,
        "x_new": [1],
    }
    assert cell.chat(chat_body(**extra)).status_code == 200
    received = json.loads(_last(engine)[0])
    assert {name: received[name] for name in extra} == extra


def test_accounts_do_not_share_a_salt_or_a_session(cell: Cell, engine: ScriptedEngine) -> None:
    _, _, other_key = cell.add_account("other")
    seen = []
    for key in (cell.key, cell.key, other_key):
        headers = {"authorization": f"Bearer {key}", "x-session-affinity": "ses_1"}
        assert cell.post(_V1, chat_body(), headers=headers).status_code == 200
        received = json.loads(_last(engine)[0])
        seen.append((received["cache_salt"], received["session_id"]))
    assert seen[0] == seen[1]
    assert seen[0][0] != seen[2][0]
    assert seen[0][1] != seen[2][1]
    # Nothing of the key or the account can be read off them.
    assert hashlib.sha256(cell.account.encode()).hexdigest() != seen[0][0]


@pytest.mark.parametrize("header", ["x-session-affinity", "x-session-id", "session-id"])
def test_the_session_is_found_wherever_a_client_puts_it(
    cell: Cell, engine: ScriptedEngine, header: str
) -> None:
    assert cell.post(_V1, chat_body(), headers={header: "ses_7"}).status_code == 200
    session = json.loads(_last(engine)[0])["session_id"]
    assert cell.post(_V1, chat_body(), headers={header: "ses_8"}).status_code == 200
    assert json.loads(_last(engine)[0])["session_id"] != session
    assert cell.chat(chat_body(prompt_cache_key="ses_7")).status_code == 200
    assert json.loads(_last(engine)[0])["session_id"] == session


def test_only_listed_headers_go_up(cell: Cell, engine: ScriptedEngine) -> None:
    headers = {
        "x-request-id": "the-callers",
        "cookie": "secret=1",
        "x-data-parallel-rank": "3",
        "traceparent": "00-1-1-00",
        "accept-encoding": "gzip",
        "user-agent": "me",
        "cf-aig-metadata": "{}",
        "x-session-affinity": "ses_1",
        "transfer-encoding": "chunked",
    }
    url = cell.gateway.url + _V1
    content = iter([json.dumps(chat_body()).encode()])
    answer = cell.client.post(url, content=content, headers={**headers, **cell.authorization()})
    assert answer.status_code == 200
    _, received = _last(engine)
    assert received.keys() == {
        "host", "content-type", "content-length", "x-request-id", "endpoint-load-metrics-format",
    }  # fmt: skip
    assert received["x-request-id"] == check_request_id(answer.headers)
    assert cell.key not in json.dumps(received)


def test_the_request_id_is_ours_through_everything(cell: Cell, engine: ScriptedEngine) -> None:
    headers = {"x-request-id": "the-callers"}
    answer = cell.post(_V1, chat_body(), headers=headers)
    request_id = check_request_id(answer.headers)
    last = engine.state().last_request
    assert last is not None
    assert last["id"] == f"chatcmpl-{request_id}" == answer.json()["id"]
    line = cell.gateway.request_line(request_id)
    assert line["caller_request"] == "the-callers"


def test_the_callers_own_id_is_echoed_beside_ours(cell: Cell) -> None:
    for body in (chat_body(), chat_body(stream=True), chat_body("nobody")):
        answer = cell.post(_V1, body, headers={"x-request-id": "theirs-1"})
        assert answer.headers["x-caller-request-id"] == "theirs-1"
        check_request_id(answer.headers)
    assert "x-caller-request-id" not in cell.chat(chat_body()).headers


def test_every_surface_sends_the_same_kind_of_body(cell: Cell, engine: ScriptedEngine) -> None:
    fields = {"messages": prompt(), "temperature": 0.5}
    bodies = []
    for path, body in (
        (_V1, {"model": CHAT, **fields}),
        (_V1, {"model": "chat", **fields}),
        (cell.path("v1/chat/completions"), {"model": CHAT, **fields}),
        (cell.path(f"run/{CHAT}"), {"model": "ignored", **fields}),
        (cell.path("run"), {"model": CHAT, "input": fields}),
        (cell.path("run/"), {"model": CHAT, "input": {"model": "ignored", **fields}}),
    ):
        assert cell.post(path, body).status_code == 200, path
        bodies.append(json.loads(_last(engine)[0]))
    assert all(body == bodies[0] for body in bodies)


def test_a_prompt_becomes_one_user_message(cell: Cell, engine: ScriptedEngine) -> None:
    for model in (CHAT, NATIVE):
        content = b'{"prompt":"\\u00e9 say \\"hi\\"","seed":1}'
        assert cell.run_model(model, content).status_code == 200
        received, _ = _last(engine)
        assert '"messages":[{"role":"user","content":"\\u00e9 say \\"hi\\""}]' in received
        assert "prompt" not in json.loads(received)
