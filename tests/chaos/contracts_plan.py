"""What clients ask under contracts, and which effects each request must have.

The arguments of forbidden calls are made of one character that stands nowhere else, so that any
piece of them shows in what a client received.
"""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from tests.integration.cells.gateway_cell import Body, prompt
from tests.integration.contracts.contract_cell import contract
from tests.integration.contracts.tool_requests import SHAPES, tool_request

# Kind, verdict and reason of a row in the log of decisions.
Effect = tuple[str, str, str]

WITHHELD: Effect = ("tool_call", "deny", "tool_call_forbidden")
UNREADABLE: Effect = ("tool_call", "deny", "tool_call_unreadable")
NOTED: Effect = ("tool_call", "change", "tool_call_forbidden")
CAPPED: Effect = ("output", "change", "")
STRIPPED: Effect = ("tools_offered", "change", "")
CUT: Effect = ("tool_output", "change", "")
# Of a refused request; nothing of it runs.
REFUSALS: tuple[Effect, ...] = (
    ("prompt", "deny", "prompt_over_contract"),
    ("workflow", "deny", "workflow_not_allowed"),
    ("tools_offered", "deny", "tool_forbidden"),
)
FORBIDDEN_CHARACTER = "ʘ"
FORBIDDEN_PIECES = (FORBIDDEN_CHARACTER.encode(), b"\\u0298")

# In words no longer than tokens are: a stream without usage is counted by its text too.
_FORBIDDEN = '{"ʘ": "' + 8 * f"{FORBIDDEN_CHARACTER * 5} " + '"}'
_AS_TEXT = f'So: <tool_call>{{"name": "bash", "arguments": {_FORBIDDEN}}}</tool_call>'
_RULES = 'default = "deny", allow = ["read_*"]'
_CONTRACTS = {
    "leave": f'tools = {{ {_RULES}, offered = "leave" }}',
    "note": f'tools = {{ {_RULES}, offered = "leave", on_forbidden = "note" }}',
    "strip": f"output = {{ tokens_max = 50 }}\ntools = {{ {_RULES} }}",
    "refuse": f'tools = {{ {_RULES}, offered = "refuse" }}',
    "short": "prompt = { tokens_max = 2000 }\noutput = { tokens_max = 50 }",
    "cut": "tool_output = { bytes_max = 1024 }",
    "others": 'accounts = ["' + "0" * 32 + '"]',
}
# A call of the older form is one alone.
_NOTED_SHAPES = ("chat", "composed", "native", "openai")
_ALLOWED_CALL = ["read_file", '{"path": "/etc/motd"}']
_FORBIDDEN_CALL = ["bash", _FORBIDDEN]
_BOTH = ("read_file", "bash")
_STREAM_SHARE = 0.6
# Tokens of every second stream come one by one, so that a kill cuts it.
_INTERVAL_SECONDS = 0.05


class Asking(msgspec.Struct, frozen=True):
    """One request. `effects` are those that its answer must have, and no other ones."""

    path: str
    body: Body
    workflow: str
    effects: frozenset[Effect]
    is_stream: bool


class _Kind(msgspec.Struct, frozen=True):
    """One kind of request: how often it comes, under which contract, and what happens to it."""

    weight: int
    workflow: str
    effects: tuple[Effect, ...]
    script: Body
    shapes: tuple[str, ...] = SHAPES
    offered: tuple[str, ...] = ("read_file",)
    fields: Body = {}
    messages: Callable[[Body], list[Body]] = prompt


def _long_prompt(script: Body) -> list[Body]:
    return prompt(script, text="long " * 3000)


def _after_a_call(script: Body) -> list[Body]:
    call = {"id": "call-1", "type": "function"}
    asked = {"name": "read_file", "arguments": "{}"}
    return [
        {"role": "user", "content": "read it"},
        {"role": "assistant", "tool_calls": [{**call, "function": asked}]},
        {"role": "tool", "tool_call_id": "call-1", "content": "a line of a log\n" * 500},
        *prompt(script),
    ]


_TEXT: Body = {"tokens": 6}
_KINDS = (
    _Kind(4, "leave", (WITHHELD,), {"calls": [_FORBIDDEN_CALL]}, offered=_BOTH),
    _Kind(2, "leave", (WITHHELD,), {"text": "I look.", "calls": [_FORBIDDEN_CALL]}),
    _Kind(1, "leave", (UNREADABLE,), {"text": _AS_TEXT}),
    _Kind(3, "note", (NOTED,), {"calls": [_FORBIDDEN_CALL]}, shapes=_NOTED_SHAPES, offered=_BOTH),
    _Kind(2, "strip", (STRIPPED,), _TEXT, offered=_BOTH, fields={"max_tokens": 40}),
    _Kind(2, "strip", (STRIPPED, CAPPED), _TEXT, offered=_BOTH, fields={"max_tokens": 400}),
    _Kind(
        2,
        "strip",
        (STRIPPED, CAPPED, WITHHELD),
        {"calls": [_FORBIDDEN_CALL]},
        offered=_BOTH,
        fields={"max_tokens": 400},
    ),
    _Kind(2, "short", (CAPPED,), _TEXT, fields={"max_tokens": 400}),
    _Kind(1, "short", (REFUSALS[0],), _TEXT, messages=_long_prompt, fields={"max_tokens": 40}),
    _Kind(1, "others", (REFUSALS[1],), _TEXT),
    _Kind(1, "refuse", (REFUSALS[2],), _TEXT, offered=_BOTH),
    _Kind(1, "cut", (CUT,), _TEXT, shapes=("chat",), messages=_after_a_call),
    _Kind(3, "leave", (), {"calls": [_ALLOWED_CALL]}),
    _Kind(3, "", (), _TEXT),
)


def write_contracts(folder: Path) -> None:
    """Write the contracts' files, as a platform team has them."""
    folder.mkdir()
    for name, rest in _CONTRACTS.items():
        (folder / f"{name}.toml").write_text(contract(name, rest))


def next_asking(source: random.Random, account: str) -> Asking:
    kind = source.choices(_KINDS, [each.weight for each in _KINDS])[0]
    shape = source.choice(kind.shapes)
    is_stream = source.random() < _STREAM_SHARE
    script = dict(kind.script)
    if is_stream and source.random() < 0.5:
        script["interval"] = _INTERVAL_SECONDS
    path, body = tool_request(
        shape,
        account,
        kind.messages(script),
        kind.offered,
        stream=is_stream,
        **_fields(shape, kind.fields),
    )
    return Asking(path, body, kind.workflow, frozenset(kind.effects), is_stream)


def _fields(shape: str, fields: Body) -> dict[str, Any]:
    """The fields by the names of this shape's API."""
    if shape in ("responses", "composed"):
        return {name.replace("max_tokens", "max_output_tokens"): v for name, v in fields.items()}
    return dict(fields)
