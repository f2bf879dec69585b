"""The openai Python SDK's batches: a file of requests in, a file of answers out."""

from tests.acceptance.client_cell import ClientCell
from tests.acceptance.client_run import run_python


def test_batch_is_done_and_its_answers_are_read(scripted_cell: ClientCell) -> None:
    told = run_python("openai_batch.py", scripted_cell, case="batch")
    assert told["status"] == "completed"
    assert told["answered"] == ["And tomorrow?", "Is it raining in Porto?"]
    assert told["statuses"] == [200, 200]
    assert all(told["usage"])
