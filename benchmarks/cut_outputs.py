"""What cutting tools' outputs costs: CPU of reading a long conversation, beside a calibration loop.

Prints one JSON line. A first reading cuts all outputs; one of the next turn cuts one. `worst_ms` is
of outputs that are as dear as a body that is read on the event loop can make them. Each figure is
the least of its rounds, and the loop runs in every round: a neighbour on the same core adds to a
round's time, and never takes from it.
"""

import json
import random
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final

from tests.unit.contracts.contract_readers import contract_reader
from tests.unit.contracts.contract_samples import KEY

from penstock.clock import new_id
from penstock.intake.caller_headers import CallerHeaders
from penstock.intake.large_reading import INLINE_BYTES_MAX
from penstock.intake.request_reader import RequestReader
from penstock.intake.routes import find_route
from penstock.records.request import RequestId
from soak_calibration import loop_microseconds

_ROUNDS: Final = 12
_WORST_ROUNDS: Final = 3
_OUTPUTS: Final = 20
_OUTPUT_BYTES: Final = 50_000
_CONTRACT: Final = 'schema = 1\nname = "work"\n'
_CAP: Final = "tool_output = { bytes_max = 16_384 }\n"
_HEADERS: Final = CallerHeaders([(b"x-penstock-workflow", b"work")])
_ROUTE: Final = find_route(b"/v1/chat/completions")


def text_output(chosen: random.Random) -> str:
    lines = (f"worker {chosen.randrange(10**6)} took {n} ms on host-{n % 7}\n" for n in range(1500))
    return "".join(lines)[:_OUTPUT_BYTES]


def json_output(chosen: random.Random) -> str:
    rows = [{"id": n, "name": f"n{n}", "v": chosen.random(), "tags": ["a"]} for n in range(830)]
    return json.dumps(rows)


def body_of(outputs: list[str]) -> bytes:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Look around."}]
    for number, output in enumerate(outputs):
        function = {"name": "ls", "arguments": "{}"}
        call = {"id": f"c{number}", "type": "function", "function": function}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": output},
        ]
    return json.dumps({"model": "big", "messages": messages}, separators=(",", ":")).encode()


def cpu_ms(made: RequestReader, body: bytes) -> float:
    before = time.process_time()
    made.read(RequestId(new_id()), _ROUTE, _HEADERS, KEY, body)
    return (time.process_time() - before) * 1000


def bodies_of(make: Callable[[random.Random], str]) -> tuple[bytes, bytes, bytes]:
    """Return a conversation, the same again, and its next turn."""
    chosen = random.Random(1)
    outputs = [make(chosen) for _ in range(_OUTPUTS + 1)]
    first = body_of(outputs[:-1])
    return first, first, body_of(outputs)


def round_ms(bodies: tuple[bytes, bytes, bytes], cap: str) -> list[float]:
    made = contract_reader(_CONTRACT + cap)
    return [cpu_ms(made, body) for body in bodies]


def least(rounds: list[list[float]]) -> dict[str, float]:
    found = [min(each) for each in zip(*rounds, strict=True)]
    return dict(zip(("first_ms", "again_ms", "next_turn_ms"), found, strict=True))


def worst_outputs() -> list[str]:
    """Outputs of many values, names, levels or escapes."""
    size = INLINE_BYTES_MAX
    return [
        "[" + "1," * 99_999 + "1]",
        json.dumps({f"k{number}": number for number in range(size // 16)}),
        "[" * 30 + '"' + "x" * size + '"' + "]" * 30,
        '["' + "\\n" * (size // 2) + '"]',
        "[" + '"\\"",' * (size // 6) + "1]",
        "\n" * size,
    ]


def worst() -> float:
    found = []
    for output in worst_outputs():
        body = body_of([output])
        made = [contract_reader(_CONTRACT + _CAP) for _ in range(_WORST_ROUNDS)]
        found.append(min(cpu_ms(each, body) for each in made))
    return max(found)


def main() -> None:
    kinds = {"text": bodies_of(text_output), "json": bodies_of(json_output)}
    loops: list[float] = []
    rounds: dict[tuple[str, str], list[list[float]]] = defaultdict(list)
    for _ in range(_ROUNDS):
        for kind, bodies in kinds.items():
            loops.append(loop_microseconds() / 1000)
            for name, cap in (("without", ""), ("with", _CAP)):
                rounds[kind, name].append(round_ms(bodies, cap))
    told: dict[str, Any] = {"loop_ms": min(loops), "worst_ms": worst()}
    for kind in kinds:
        told[kind] = {name: least(rounds[kind, name]) for name in ("without", "with")}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
