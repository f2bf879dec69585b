"""A form with one file in it, in pieces of any size."""

from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import BodyTooLarge, InvalidRequest
from penstock.ingress.pages.upload_form import UploadForm

TYPE = b'multipart/form-data; boundary="xyz"'
PURPOSE = b'content-disposition: form-data; name="purpose"\r\n\r\nbatch'
FILE = (
    b'Content-Disposition: form-data; name="file"; filename="a \xc3\xa4.jsonl"\r\n'
    b"Content-Type: application/jsonl\r\n\r\n"
)


def form(*parts: bytes) -> bytes:
    return b"".join(b"--xyz\r\n" + part + b"\r\n" for part in parts) + b"--xyz--\r\n"


async def read(body: bytes, size: int = 10, bytes_max: int = 1000) -> tuple[UploadForm, bytes]:
    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), size):
            yield body[start : start + size]

    upload = UploadForm(TYPE, pieces(), bytes_max)
    await upload.begin()
    return upload, b"".join([piece async for piece in upload.file()])


@given(st.binary(max_size=200), st.integers(1, 300), st.booleans())
async def test_the_file_comes_out_as_it_went_in(
    content: bytes, size: int, is_purpose_first: bool
) -> None:
    file = FILE + content.replace(b"--xyz", b"")
    parts = [PURPOSE, file] if is_purpose_first else [file, PURPOSE]
    upload, got = await read(form(*parts), size)
    assert got == file.removeprefix(FILE)
    assert upload.fields == {"purpose": "batch"}
    assert upload.filename == "a ä.jsonl"


async def test_a_file_over_the_limit_is_refused() -> None:
    with pytest.raises(BodyTooLarge, match="over 50 bytes"):
        await read(form(PURPOSE, FILE + b"x" * 51), bytes_max=50)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (form(PURPOSE), "`file` is required"),
        (form(FILE + b"1", FILE + b"2"), "more than one file"),
        (form(*[PURPOSE] * 17, FILE), "more than 16 parts"),
        (form(PURPOSE + b"x" * 5000, FILE), "over 4096 bytes"),
        (form(FILE + b"1")[:-10], "did not come whole"),
        (b"nothing of the kind", "not valid multipart"),
    ],
)
async def test_a_form_that_is_wrong_is_refused(body: bytes, why: str) -> None:
    with pytest.raises(InvalidRequest, match=why):
        await read(body)


def test_another_content_type_is_refused() -> None:
    async def nothing() -> AsyncIterator[bytes]:
        yield b""

    with pytest.raises(InvalidRequest, match="multipart/form-data"):
        UploadForm(b"application/json", nothing(), 10)
