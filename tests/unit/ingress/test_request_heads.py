"""What a connection reads off a request's head by itself."""

import httptools
import pytest

from penstock.ingress.http.request_heads import (
    content_length,
    expects_continue,
    head_bytes,
    without_upgrade,
)


def test_length_is_read_whatever_zeros_stand_before_it() -> None:
    assert content_length([(b"host", b"x")]) == 0
    assert content_length([(b"host", b"x"), (b"content-length", b"70000")]) == 70_000
    assert content_length([(b"content-length", b"0" * 5000 + b"70000")]) == 70_000
    assert content_length([(b"content-length", b"0" * 5000)]) == 0


def test_size_is_that_of_all_that_was_sent() -> None:
    assert head_bytes(b"/v1", [(b"a", b"bc"), (b"d", b"")]) == 7


def test_continue_is_expected_in_any_case_of_letters() -> None:
    assert expects_continue([(b"expect", b"100-Continue")])
    assert not expects_continue([(b"expect", b"something else")])


@pytest.mark.parametrize("version", ["1.1", "1.0"])
def test_head_goes_on_without_the_question_for_another_protocol(version: str) -> None:
    lines = "host: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n\r\n"
    parser = httptools.HttpRequestParser(None)
    with pytest.raises(httptools.HttpParserUpgrade):
        parser.feed_data(f"POST /v1 HTTP/{version}\r\n{lines}".encode())
    asked = [(b"host", b"x"), (b"connection", b"Upgrade"), (b"upgrade", b"h2c")]
    head = without_upgrade(parser, b"/v1", [*asked, (b"http2-settings", b"AA")])
    assert head == f"POST /v1 HTTP/{version}\r\nconnection: close\r\nhost: x\r\n\r\n".encode()
