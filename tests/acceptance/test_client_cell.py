"""The cell that clients are run against says what reached its engines and its ledger."""

import httpx
from tests.acceptance.client_cell import LLAMA, SCRIPTED_CONTEXT_TOKENS, ClientCell


def test_cell_shows_requests_since_it_was_told_to_forget(scripted_cell: ClientCell) -> None:
    for words in ("before", "after"):
        scripted_cell.forget()
        asked = httpx.post(
            f"{scripted_cell.url}/v1/chat/completions",
            headers={
                "authorization": f"Bearer {scripted_cell.key}",
                "x-session-affinity": "cell/1",
            },
            json={"model": LLAMA, "messages": [{"role": "user", "content": words}]},
        )
        assert asked.status_code == 200
    (received,) = scripted_cell.requests()
    assert received["body"]["messages"] == [{"role": "user", "content": "after"}]
    assert [turn["model"] for turn in scripted_cell.session("cell/1", 2)["turns"]] == [LLAMA] * 2


def test_cell_serves_every_model_under_its_workers_ai_id(scripted_cell: ClientCell) -> None:
    served = {model["id"] for model in scripted_cell.get("/v1/models")["data"]}
    assert set(SCRIPTED_CONTEXT_TOKENS) <= served
