"""A turn whose tools run here is one trace: each time that the model is asked is an attempt."""

from pathlib import Path

from tests.integration.cells.gateway_cell import CHAT, CellFactory
from tests.integration.cells.imitated_sandbox import TOKEN, ImitatedSandbox
from tests.integration.cells.stored_cell import STORING
from tests.integration.cells.trace_collector import TraceCollector
from tests.integration.turns.turn_requests import ask_code


def test_a_turn_is_one_tree(cells: CellFactory, host: ImitatedSandbox, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    with TraceCollector() as collector:
        settings = {
            **STORING,
            "tools.sandbox_hosts": [host.url],
            "tools.sandbox_token_file": str(token),
            "tools.allow_shared_kernel": True,
            "telemetry.traces_url": collector.url,
            "telemetry.traces_share": 1.0,
        }
        with cells.open(settings) as cell:
            cell.set_up(CHAT)
            answer = cell.post("/v1/responses", ask_code("print(6*7)", "x = 1"))
            assert answer.status_code == 200, answer.text
            turn = answer.headers["x-request-id"]
            root, children = collector.tree_of(turn)
    assert root.name == "POST /v1/responses"
    assert [child.name for child in children] == [f"chat {CHAT}"] * 3
    asked = [child.attributes["penstock.request.id"] for child in children]
    assert asked[0] == turn
    assert len(set(asked)) == 3
    used = sum(child.attributes["gen_ai.usage.output_tokens"] for child in children)
    assert used == answer.json()["usage"]["output_tokens"]
