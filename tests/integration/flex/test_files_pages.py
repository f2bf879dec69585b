"""`/v1/files` with openai's SDK and without."""

from collections.abc import Iterator
from typing import Literal

import httpx
import openai
import pytest
from tests.integration.cells.batch_cell import QUICK, line, sdk
from tests.integration.cells.gateway_cell import CHAT, Cell, CellFactory

_LIMIT = 300_000


@pytest.fixture(scope="module")
def files_cell(cells: CellFactory) -> Iterator[Cell]:
    with cells.open({**QUICK, "ingress.file_bytes_max": _LIMIT}) as cell:
        cell.set_up(CHAT)
        yield cell


def test_a_file_goes_in_and_comes_out_as_it_was(files_cell: Cell) -> None:
    client = sdk(files_cell)
    content = "\n".join(line(f"line {number} ä") for number in range(1000)).encode()
    made = client.files.create(file=("jobs ä.jsonl", content), purpose="batch")
    assert (made.bytes, made.filename, made.purpose) == (len(content), "jobs ä.jsonl", "batch")
    assert made.expires_at is not None
    assert made.expires_at - made.created_at == pytest.approx(30 * 86400, abs=2)
    assert client.files.retrieve(made.id) == made
    assert client.files.content(made.id).content == content


@pytest.mark.parametrize("purpose", ["user_data", "assistants"])
def test_a_file_for_a_container_makes_no_batch(
    files_cell: Cell, purpose: Literal["user_data", "assistants"]
) -> None:
    client = sdk(files_cell)
    made = client.files.create(file=("table.csv", b"a,b\n"), purpose=purpose)
    assert made.purpose == client.files.retrieve(made.id).purpose == purpose
    assert made.id in [file.id for file in client.files.list(purpose=purpose)]
    with pytest.raises(openai.BadRequestError, match="purpose"):
        client.batches.create(
            input_file_id=made.id, endpoint="/v1/chat/completions", completion_window="24h"
        )


def test_its_owner_says_how_long_a_file_is_kept(files_cell: Cell) -> None:
    made = sdk(files_cell).files.create(
        file=b"{}", purpose="batch", expires_after={"anchor": "created_at", "seconds": 3600}
    )
    assert made.expires_at is not None
    assert made.expires_at - made.created_at == pytest.approx(3600, abs=2)


def test_a_deleted_file_is_gone(files_cell: Cell) -> None:
    client = sdk(files_cell)
    made = client.files.create(file=b"1", purpose="batch")
    assert client.files.delete(made.id).deleted
    for gone in (client.files.retrieve, client.files.content, client.files.delete):
        with pytest.raises(openai.NotFoundError):
            gone(made.id)


def test_a_list_goes_page_by_page(files_cell: Cell) -> None:
    _, _, key = files_cell.add_account("lists")
    client = sdk(files_cell, key)
    made = [client.files.create(file=b"1", purpose="batch").id for _ in range(5)]
    assert [file.id for file in client.files.list(limit=2)] == made[::-1]
    assert [file.id for file in client.files.list(limit=3, order="asc")] == made
    assert [file.id for file in client.files.list(purpose="batch_output")] == []


def test_an_account_sees_no_file_of_another(files_cell: Cell) -> None:
    made = sdk(files_cell).files.create(file=b"1", purpose="batch")
    _, _, key = files_cell.add_account("other")
    other = sdk(files_cell, key)
    assert list(other.files.list()) == []
    for refused in (other.files.retrieve, other.files.content, other.files.delete):
        with pytest.raises(openai.NotFoundError):
            refused(made.id)
    with pytest.raises(openai.NotFoundError):
        other.batches.create(
            input_file_id=made.id, endpoint="/v1/chat/completions", completion_window="24h"
        )
    assert sdk(files_cell).files.content(made.id).content == b"1"


def test_a_file_over_the_limit_is_answered_413(files_cell: Cell) -> None:
    with pytest.raises(openai.APIStatusError, match="over 300000 bytes") as refused:
        sdk(files_cell).files.create(file=b"x" * (_LIMIT + 1), purpose="batch")
    assert refused.value.status_code == 413
    made = sdk(files_cell).files.create(file=b"x" * _LIMIT, purpose="batch")
    assert made.bytes == _LIMIT


def test_a_file_without_a_length_is_held_to_the_limit_too(files_cell: Cell) -> None:
    boundary = b"--xyz\r\n"
    head = boundary + b'Content-Disposition: form-data; name="file"; filename="a"\r\n\r\n'

    def chunks() -> Iterator[bytes]:
        yield head
        for _ in range(20):
            yield b"x" * 100_000

    answer = httpx.post(
        f"{files_cell.gateway.url}/v1/files",
        content=chunks(),
        headers={
            **files_cell.authorization(),
            "content-type": "multipart/form-data; boundary=xyz",
        },
        timeout=30,
    )
    assert answer.status_code == 413


def test_a_file_for_something_else_is_refused(files_cell: Cell) -> None:
    with pytest.raises(openai.BadRequestError, match="purpose"):
        sdk(files_cell).files.create(file=b"1", purpose="fine-tune")


def test_an_operators_key_has_no_files(files_cell: Cell) -> None:
    with pytest.raises(openai.PermissionDeniedError):
        sdk(files_cell, files_cell.operator_key).files.list()
