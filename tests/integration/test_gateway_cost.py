"""What an answer cost, said on it: a header, or a comment before a stream's end mark (rule 13)."""

from tests.integration.gateway_cell import Cell, chat_body

from penstock.metering import cost_nanousd, usd
from penstock.records.model import Prices
from penstock.records.usage import Usage

PRICES = Prices(600_000_000, 600_000_000, 3_000_000_000)


def cost_of(usage: dict[str, object]) -> str:
    prompt, output = usage["prompt_tokens"], usage["completion_tokens"]
    assert isinstance(prompt, int)
    assert isinstance(output, int)
    return usd(cost_nanousd(Usage(prompt, output, 0), PRICES))


def test_whole_answer_carries_its_cost(cell: Cell) -> None:
    answer = cell.chat(chat_body())
    assert answer.headers["x-penstock-cost-usd"] == cost_of(answer.json()["usage"])
    assert float(answer.headers["x-penstock-cost-usd"]) > 0


def test_stream_carries_its_cost_only_when_asked(cell: Cell) -> None:
    body = {**chat_body(), "stream": True}
    path = "/v1/chat/completions"
    plain = cell.post(path, body).text
    asked = cell.post(path, body, headers={"x-penstock-cost": "1"}).text
    assert "cost-usd" not in plain
    events = asked.split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    assert events[-3].startswith(": cost-usd 0.0")
    assert len(events) == len(plain.split("\n\n")) + 1
