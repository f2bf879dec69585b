"""A contract cuts outputs of tools on every API; what the caller sent else reaches the engine."""

import json
from typing import Any, Final

import msgspec
import pytest
from tests.unit.contracts.contract_readers import contract_reader
from tests.unit.contracts.contract_samples import CATALOGUE, KEY, a_model

from penstock.catalogue import Catalogue
from penstock.clock import new_id
from penstock.contracts.cases import Case, Expected
from penstock.contracts.deciding import ContractDecision
from penstock.intake.caller_headers import CallerHeaders
from penstock.intake.contract_cases import run_case
from penstock.intake.request_reader import RequestReader
from penstock.intake.routes import find_route
from penstock.records.decision import DecisionKind, DecisionVerdict
from penstock.records.model import Capability, Family
from penstock.records.request import InferenceRequest, RequestId

CHAT: Final = b"/v1/chat/completions"
MESSAGES: Final = b"/v1/messages"
RESPONSES: Final = b"/v1/responses"
RUN: Final = b"/client/v4/accounts/acme/ai/run"
TOP: Final = 'schema = 1\nname = "w"\n'
CAPPED: Final = f'{TOP}tool_output = {{ bytes_max = 2000, exempt = ["read_*"] }}\n'
HEADERS: Final = CallerHeaders([(b"x-penstock-workflow", b"w")])
MODELS: Final = Catalogue(
    [
        *CATALOGUE.models,
        a_model("composed", *Capability, aliases=("composed",), responses="chat"),
        a_model("native", *Capability, aliases=("native",), family=Family.NATIVE),
    ]
)
OUTPUT: Final = "".join(f"{number} files in folder {number}\n" for number in range(400))
SHOWN: Final = json.dumps(OUTPUT)


class Read:
    """A request that was read, with what its contract decided."""

    def __init__(self, request: InferenceRequest, decision: ContractDecision | None) -> None:
        self.request = request
        self.body = msgspec.json.encode(request.prompt.body)
        self.decision = decision
        self.effects = [] if decision is None else [str(each) for each in decision.effects]


def reader(*contracts: str) -> RequestReader:
    return contract_reader(*contracts, catalogue=MODELS)


def read(made: RequestReader, path: bytes, body: dict[str, Any] | bytes) -> Read:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    opened = made.open(find_route(path), HEADERS, KEY, raw)
    return Read(made.read_prompt(RequestId(new_id()), HEADERS, opened), opened.contract)


def chat(*outputs: str, tool: str = "ls", model: str = "big") -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Look." + "." * 3000}]
    for number, output in enumerate(outputs):
        function = {"name": tool, "arguments": "{}"}
        calls = [{"id": f"c{number}", "type": "function", "function": function}]
        messages += [
            {"role": "assistant", "content": None, "tool_calls": calls},
            {"role": "tool", "tool_call_id": f"c{number}", "content": output},
        ]
    return {"model": model, "messages": messages}


def items(output: str, model: str = "big") -> dict[str, Any]:
    call = {"type": "function_call", "call_id": "c0", "name": "ls", "arguments": "{}"}
    given = {"type": "function_call_output", "call_id": "c0", "output": output}
    asked = {"role": "user", "content": "Look."}
    return {"model": model, "input": [asked, call, given], "store": False}


def blocks(output: str) -> dict[str, Any]:
    use = {"type": "tool_use", "id": "c0", "name": "ls", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "c0", "content": output}
    messages = [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [result]},
    ]
    return {"model": "big", "messages": messages, "max_tokens": 100}


def run(output: str) -> dict[str, Any]:
    messages = [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": "", "tool_calls": [{"name": "ls", "arguments": {}}]},
        {"role": "tool", "name": "ls", "content": output},
    ]
    return {"messages": messages}


WAYS: Final[list[tuple[str, bytes, dict[str, Any]]]] = [
    ("chat", CHAT, chat(OUTPUT)),
    ("responses", RESPONSES, items(OUTPUT)),
    ("composed", RESPONSES, items(OUTPUT, "composed")),
    ("messages", MESSAGES, blocks(OUTPUT)),
    ("run", RUN + b"/@cf/x/big", run(OUTPUT)),
    ("run native", RUN + b"/@cf/x/native", run(OUTPUT)),
    ("run input", RUN, {"model": "big", "input": run(OUTPUT)}),
]
EACH_WAY = pytest.mark.parametrize(
    ("path", "body"), [way[1:] for way in WAYS], ids=[way[0] for way in WAYS]
)


def cut_text(body: bytes) -> str:
    """Return the output as the engine gets it."""
    found: list[str] = []

    def look(value: Any) -> None:
        if isinstance(value, dict):
            for each in value.values():
                look(each)
        elif isinstance(value, list):
            for each in value:
                look(each)
        elif isinstance(value, str) and value.startswith("0 files"):
            found.append(value)

    look(json.loads(body))
    assert len(found) == 1
    return found[0]


@EACH_WAY
def test_an_output_is_cut_on_every_api_and_the_rest_stays(
    path: bytes, body: dict[str, Any]
) -> None:
    found, without = read(reader(CAPPED), path, body), read(reader(), path, body)
    text = cut_text(found.body)
    assert len(text.encode()) <= 2000
    assert "left out here: contract w]" in text
    left_out = len(OUTPUT.encode()) - len(text.encode())
    assert found.effects == [f"tool_output=1/{left_out}"]
    assert cut_text(without.body) == OUTPUT
    plain = msgspec.json.encode(text)
    for written in (SHOWN.encode(), msgspec.json.encode(OUTPUT)):
        if written in without.body:
            assert found.body == without.body.replace(written, plain)
    estimates = [each.request.terms.prompt_tokens_estimate for each in (found, without)]
    assert estimates[0] < estimates[1]


@EACH_WAY
def test_the_same_cut_on_every_api(path: bytes, body: dict[str, Any]) -> None:
    assert cut_text(read(reader(CAPPED), path, body).body) == cut_text(
        read(reader(CAPPED), CHAT, chat(OUTPUT)).body
    )


@EACH_WAY
def test_a_contract_that_observes_sends_the_same_bytes(path: bytes, body: dict[str, Any]) -> None:
    observed = read(reader(f'{CAPPED}mode = "observe"\n'), path, body)
    without = read(reader(), path, body)
    assert observed.body == without.body
    assert observed.effects == read(reader(CAPPED), path, body).effects
    assert observed.request.prompt.chain.links == without.request.prompt.chain.links


def test_the_effect_names_the_tools_that_were_cut() -> None:
    found = read(reader(CAPPED), CHAT, chat(OUTPUT, "short", OUTPUT * 2))
    assert found.decision is not None
    (effect,) = found.decision.effects
    assert (effect.kind, effect.decided) == ("tool_output", DecisionKind.TOOL_OUTPUT)
    assert (effect.verdict, effect.subjects) == (DecisionVerdict.CHANGE, ("ls",))
    count, left_out = map(int, effect.value.split("/"))
    assert count == 2
    assert left_out > 3 * len(OUTPUT) - 2 * 2000 - 1


@pytest.mark.parametrize("tool", ["read_file", "read_"])
def test_an_exempt_tools_output_stays_whole(tool: str) -> None:
    body = chat(OUTPUT, tool=tool)
    found = read(reader(CAPPED), CHAT, body)
    assert (found.body, found.effects) == (read(reader(), CHAT, body).body, [])


def test_a_request_without_long_outputs_stays_byte_for_byte() -> None:
    raw = json.dumps(chat("short", "x" * 2000), indent=1).encode()
    found = read(reader(CAPPED), CHAT, raw)
    assert (found.body, found.effects) == (read(reader(), CHAT, raw).body, [])


def test_a_second_turn_cuts_only_what_is_new() -> None:
    made = reader(CAPPED)
    outputs = made._policies.outputs
    for turn in range(1, 6):
        read(made, CHAT, chat(*(f"{number}\n{OUTPUT}" for number in range(turn))))
        assert outputs.made == turn


@pytest.mark.parametrize("lines", [400, 4000])
def test_every_turn_and_every_worker_sends_the_same_prefix(lines: int) -> None:
    """Also where the worker remembers prompts, which are long, and read without a contract."""
    outputs = ["".join(f"{a}.{b} line\n" for b in range(lines)) for a in range(6)]
    made = reader(CAPPED, f"{TOP.replace('w', 'free')}")
    before: bytes = b""
    links: tuple[int, ...] = ()
    for turn in range(1, 7):
        body = chat(*outputs[:turn])
        # The account's other workflow has no cap: its prompts are remembered whole.
        free = CallerHeaders([(b"x-penstock-workflow", b"free")])
        raw = json.dumps(body).encode()
        for _ in range(2):
            made.read(RequestId(new_id()), find_route(CHAT), free, KEY, raw)
        found = read(made, CHAT, body)
        assert found.body == read(reader(CAPPED), CHAT, body).body
        messages = bytes(found.request.prompt.body["messages"])
        assert messages.startswith(before)
        chain = found.request.prompt.chain.links
        assert chain[: len(links)] == links
        before, links = messages[:-1], chain


def test_what_is_chained_is_what_the_engine_gets() -> None:
    cut = read(reader(CAPPED), CHAT, chat(OUTPUT))
    sent = json.loads(cut.body)
    without = read(reader(), CHAT, {"model": "big", "messages": sent["messages"]})
    assert cut.request.prompt.chain.sizes == without.request.prompt.chain.sizes


def test_images_beside_a_cut_text_stay() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    parts = [{"type": "text", "text": OUTPUT}, image, {"type": "text", "text": "the end"}]
    body = chat(OUTPUT)
    body["messages"][-1]["content"] = parts
    sent = json.loads(read(reader(CAPPED), CHAT, body).body)["messages"][-1]["content"]
    assert sent[1:] == parts[1:]
    assert len(sent[0]["text"].encode()) + len("the end") <= 2000


def case(body: dict[str, Any], **fields: Any) -> Case:
    return Case(name="a case", workflow="w", body=body, **fields)


@pytest.mark.parametrize(
    ("api", "body"),
    [("chat", chat("x\n")), ("responses", items("x\n")), ("messages", blocks("x\n")),
     ("run", {"model": "big", **run("x\n")})],
)  # fmt: skip
@pytest.mark.parametrize("mode", ["enforce", "observe"])
def test_cases_may_expect_that_outputs_are_cut(api: Any, body: dict[str, Any], mode: str) -> None:
    contract = f'{CAPPED}mode = "{mode}"\n[models]\ndefault = "big"\n'
    current = contract_reader(contract, catalogue=MODELS)._contracts.in_force
    assert current is not None
    for more, applied in ((0, ()), (9000, ("tool_output=1/",))):
        expect = Expected(applied=applied)
        made = case(body, api=api, outputs_longer_by=more, expect=expect)
        result = run_case(made, current, MODELS, 3.0)
        came = result.differs.get("applied", ("", ""))[1]
        assert came.startswith("tool_output=1/") is bool(more), result.differs
