"""Reads a multipart form with one file as it arrives: the file is never held in memory.

Fields may come before or after the file; all are known when the file has been read.
"""

from collections import deque
from collections.abc import AsyncIterator
from typing import Final

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from penstock.errors import BodyTooLarge, InvalidRequest

_PARTS_MAX: Final = 16
_FIELD_BYTES_MAX: Final = 4096
_NAME_CHARACTERS_MAX: Final = 255
_FORM: Final = b"multipart/form-data"


class UploadForm:
    """Parses one form: call `begin`, then read all of `file`; then `fields` is complete."""

    def __init__(
        self, content_type: bytes, body: AsyncIterator[bytes], file_bytes_max: int
    ) -> None:
        kind, options = parse_options_header(content_type)
        if kind != _FORM or not options.get(b"boundary"):
            raise InvalidRequest("Send the file as multipart/form-data with a boundary.")
        self.fields: dict[str, str] = {}
        self.filename: str | None = None
        self._body = body
        self._bytes_left = file_bytes_max
        self._bytes_max = file_bytes_max
        self._parts = 0
        self._header = bytearray()
        self._headers: dict[bytes, bytes] = {}
        self._field: bytearray | None = None
        self._field_name = ""
        self._pieces: deque[bytes] = deque()
        self._is_whole = False
        self._parser = self._parser_for(options[b"boundary"])
        self._value = bytearray()

    async def begin(self) -> str:
        """Read up to the file; return its name."""
        async for chunk in self._body:
            self._feed(chunk)
            if self.filename is not None:
                return self.filename
        raise InvalidRequest("`file` is required.", param="file")

    async def file(self) -> AsyncIterator[bytes]:
        """Yield the file's bytes; raise BodyTooLarge once they exceed the limit."""
        while self._pieces:
            yield self._pieces.popleft()
        async for chunk in self._body:
            self._feed(chunk)
            while self._pieces:
                yield self._pieces.popleft()
        if not self._is_whole:
            raise InvalidRequest("The form did not come whole.")

    def _parser_for(self, boundary: bytes) -> MultipartParser:
        try:
            return MultipartParser(
                boundary,
                {
                    "on_part_begin": self._on_part_begin,
                    "on_header_field": self._on_header,
                    "on_header_value": self._on_header_value,
                    "on_header_end": self._on_header_end,
                    "on_headers_finished": self._on_headers_finished,
                    "on_part_data": self._on_part_data,
                    "on_part_end": self._on_part_end,
                    "on_end": self._on_end,
                },
            )
        except FormParserError as bad:
            raise InvalidRequest(f"The form's boundary is not valid: {bad}") from None

    def _feed(self, chunk: bytes) -> None:
        try:
            self._parser.write(chunk)
        except FormParserError as bad:
            raise InvalidRequest(f"The form is not valid multipart/form-data: {bad}") from None

    def _on_part_begin(self) -> None:
        self._parts += 1
        if self._parts > _PARTS_MAX:
            raise InvalidRequest(f"The form has more than {_PARTS_MAX} parts.")
        self._headers = {}

    def _on_header(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _on_header_end(self) -> None:
        self._headers[bytes(self._header).lower()] = bytes(self._value)
        self._header.clear()
        self._value.clear()

    def _on_headers_finished(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        name = _text(options.get(b"name", b""))
        if name != "file":
            self._field, self._field_name = bytearray(), name
            return
        if self.filename is not None:
            raise InvalidRequest("The form has more than one file.", param="file")
        self.filename = _text(options.get(b"filename", b""))[:_NAME_CHARACTERS_MAX] or "file"
        self._field = None

    def _on_part_data(self, data: bytes, start: int, end: int) -> None:
        if self._field is None:
            self._bytes_left -= end - start
            if self._bytes_left < 0:
                raise BodyTooLarge(f"The file is over {self._bytes_max} bytes.", param="file")
            self._pieces.append(data[start:end])
            return
        self._field += data[start:end]
        if len(self._field) > _FIELD_BYTES_MAX:
            raise InvalidRequest(
                f"`{self._field_name}` is over {_FIELD_BYTES_MAX} bytes.", param=self._field_name
            )

    def _on_part_end(self) -> None:
        if self._field is not None:
            self.fields[self._field_name] = _text(bytes(self._field))

    def _on_end(self) -> None:
        self._is_whole = True


def _text(raw: bytes) -> str:
    """Decode a caller's text, without unprintable characters, to store and to send back."""
    text = raw.decode("utf-8", errors="replace")
    return "".join(character for character in text if character.isprintable())
