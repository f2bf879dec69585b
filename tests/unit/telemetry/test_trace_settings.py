"""The collector's address is checked when settings are read, not when the first trace is posted."""

import msgspec
import pytest

from penstock.telemetry.settings import TelemetrySettings


def read(url: str) -> TelemetrySettings:
    return msgspec.convert({"traces_url": url}, TelemetrySettings)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http://127.0.0.1:4318/v1/traces",
        "https://collector/v1/traces?a=b",
        "http://[::1]:4318/",
    ],
)
def test_addresses_of_collectors_are_taken(url: str) -> None:
    assert read(url).traces_url == url


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:4318",
        "grpc://127.0.0.1:4317",
        "http://",
        "http:///v1/traces",
        "http://user:secret@collector/",
        "http://collector/#part",
        "http://collector/a b",
        "http://collector/\n",
        "http://collector/" + "x" * 2048,
    ],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        read(url)


def test_nothing_is_traced_by_default() -> None:
    assert TelemetrySettings().traces_url == ""
