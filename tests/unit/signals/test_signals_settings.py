"""What cannot work is refused where it is read, by the name of its setting."""

import msgspec
import pytest

from penstock.signals import SignalsSettings


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("folder", "/" + "x" * 80, "folder must have at most"),
        ("interval_seconds", 1.0, "silence_seconds must be at least twice"),
        ("nats_url", "nats://me:secret@127.0.0.1:4222", "nats_url must have no password"),
        ("nats_url", "nats://a:4222,nats://me:secret@b:4222", "nats_url must have no password"),
        ("transport", "udp", "Invalid enum value"),
        ("peers_max", 0, "Expected `int` >= 1"),
    ],
)
def test_a_setting_that_cannot_work_is_refused_by_name(name: str, value: object, said: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=said):
        msgspec.convert({name: value}, SignalsSettings)


def test_a_password_in_an_url_is_not_repeated_in_the_error() -> None:
    with pytest.raises(msgspec.ValidationError) as wrong:
        msgspec.convert({"nats_url": "nats://me:hush@127.0.0.1:4222"}, SignalsSettings)
    assert "hush" not in str(wrong.value)


def test_the_longest_folder_that_is_taken_holds_a_socket() -> None:
    longest = SignalsSettings(folder="/" + "x" * 75).folder
    assert len(f"{longest}/01234567-0123456789abcdef.sock") <= 107
