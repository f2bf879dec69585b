"""What a tool answers becomes text of a bounded size, and failures become errors of items."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from penstock.tools.mcp import FailureKind, McpFailure, McpResult, call_error, result_text
from penstock.tools.mcp.messages import header_value, read_result
from penstock.tools.mcp.param_headers import param_headers
from penstock.tools.mcp.result_text import capped_text, failure_text, read_arguments


def result(**fields: object) -> McpResult:
    return read_result(Raw(msgspec.json.encode(fields)))


def test_texts_are_joined_and_other_parts_described() -> None:
    made = result(
        content=[
            {"type": "text", "text": "one"},
            {"type": "image", "data": "QUJD", "mimeType": "image/png"},
            {"type": "resource_link", "uri": "file:///a", "name": "a"},
            {"type": "resource", "resource": {"uri": "file:///b", "text": "two"}},
            {"type": "resource", "resource": {"uri": "file:///c", "blob": "QUJD"}},
        ],
        structuredContent={"not": "said"},
    )
    assert result_text(made, 1000).split("\n") == [
        "one", "[image: image/png, 3 bytes]", "[resource file:///a: a]", "two",
        "[resource file:///c: data, 3 bytes]",
    ]  # fmt: skip


def test_a_structured_value_stands_where_there_is_no_text() -> None:
    assert result_text(result(structuredContent={"sum": 3}), 100) == '{"sum":3}'
    assert result_text(result(content=[], structuredContent=None), 100) == ""


@given(st.text(), st.integers(0, 200))
def test_a_capped_text_fits_and_keeps_both_ends(text: str, bytes_max: int) -> None:
    capped = capped_text(text, bytes_max)
    assert len(capped.encode(errors="replace")) <= bytes_max
    if len(text.encode(errors="replace")) <= bytes_max:
        assert capped == text


def test_a_capped_text_says_how_much_is_left_out() -> None:
    capped = capped_text("a" * 500 + "z" * 500, 100)
    assert capped.startswith("aaa")
    assert capped.endswith("zzz")
    kept = capped.count("a") + capped.count("z")
    assert f"[… {1000 - kept} bytes left out …]" in capped


def test_failures_become_errors_of_items() -> None:
    failed = McpFailure(FailureKind.HTTP, 502, "no connection", may_have_run=False)
    assert call_error(failed, 100) == {
        "type": "http_error",
        "code": 502,
        "message": "no connection",
    }
    assert "did not run" in failure_text(failed)
    refused = result(content=[{"type": "text", "text": "no such file"}], isError=True)
    assert call_error(refused, 100) == {
        "type": "mcp_tool_execution_error",
        "content": [{"type": "text", "text": "no such file"}],
    }
    assert len(McpFailure(FailureKind.PROTOCOL, 1, "x" * 10_000).message) == 1024


def test_arguments_are_an_object_or_nothing() -> None:
    assert read_arguments("") == {}
    assert read_arguments('{"a": 1}') == {"a": 1}
    assert [read_arguments(text) for text in ("[]", "{", "[" * 100_000)] == [None] * 3


def test_arguments_are_repeated_in_headers_where_the_schema_says_so() -> None:
    schema = Raw(
        b'{"properties": {"a": {"type": "string", "x-mcp-header": "A"},'
        b' "b": {"properties": {"c": {"x-mcp-header": "C"}}},'
        b' "bad": {"x-mcp-header": "a b"}, "d": {"x-mcp-header": "D"}, "e": {}}}'
    )
    arguments = {"a": "x\r\ny", "b": {"c": True}, "bad": "z", "d": [1], "e": "w"}
    wrapped = header_value("x\r\ny")
    assert wrapped.startswith("=?base64?")
    assert param_headers(schema, arguments) == [("mcp-param-a", wrapped), ("mcp-param-c", "true")]


@given(st.text())
def test_a_header_value_is_one_printable_line(text: str) -> None:
    value = header_value(text.encode(errors="replace").decode())
    assert value.isascii()
    assert value.isprintable()
