"""One account sends a new workflow and a new prompt family with every request: others keep rows."""

from tests.integration.cells.gateway_cell import CHAT, Cell, CellFactory, prompt
from tests.integration.cells.gateway_process import eventually

SHARE = 5
ROWS = 20
WORKFLOW = "penstock_workflow_first_token_seconds_count"
FAMILY = "penstock_family_prompt_tokens_total"


def ask(cell: Cell, key: str, name: str) -> None:
    messages = [{"role": "system", "content": f"You are {name}."}, *prompt()]
    body = {"model": CHAT, "messages": messages, "stream": True, "max_tokens": 2}
    headers = {"authorization": f"Bearer {key}", "x-penstock-workflow": name}
    assert cell.post("/v1/chat/completions", body, headers=headers).status_code == 200


def labels(cell: Cell, metric: str, account: str) -> set[str]:
    """The labels, as they are written, of the metric's rows of an account."""
    rows = cell.gateway.metrics()
    return {text for name, text in rows if name == metric and f'account="{account}"' in text}


def test_labels_of_one_account_leave_rows_for_the_labels_of_another(cells: CellFactory) -> None:
    settings = {"telemetry.label_pairs_max": ROWS, "telemetry.labels_per_account_max": SHARE}
    with cells.open(settings) as cell:
        cell.set_up(CHAT)
        second, _, second_key = cell.add_account("second")
        for number in range(2 * ROWS):
            ask(cell, cell.key, f"flood-{number}")
        ask(cell, second_key, "nightly")
        for metric in (WORKFLOW, FAMILY):
            eventually(lambda metric=metric: len(labels(cell, metric, second)) == 1)  # type: ignore[misc]
            # Its share, and `other`.
            assert len(labels(cell, metric, cell.account)) == SHARE + 1
        assert 'workflow="nightly"' in labels(cell, WORKFLOW, second).pop()
        assert cell.gateway.metric(WORKFLOW, f'account="{cell.account}"') == 2 * ROWS
