"""Pauses grow from five seconds to a day, and end."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.events.backoff import retry_seconds
from penstock.events.settings import WebhookSettings

SETTINGS = WebhookSettings()


def test_pauses_go_from_five_seconds_to_a_day() -> None:
    pauses = [retry_seconds(tries, 0.0, SETTINGS) for tries in range(1, 11)]
    assert pauses[0] == 5
    assert pauses[8] == 86_400
    assert pauses[9] is None


@given(st.integers(1, 1000), st.floats(0, 1), st.integers(1, 100))
def test_a_pause_is_bounded_and_spread_by_a_fifth(tries: int, chance: float, most: int) -> None:
    settings = msgspec.structs.replace(SETTINGS, attempts_max=most)
    pause, longest = retry_seconds(tries, chance, settings), retry_seconds(tries, 0, settings)
    assert (pause is None) == (tries >= most)
    if pause is not None:
        assert longest is not None
        assert 0.8 * longest - 1e-6 <= pause <= longest <= 86_400


def test_settings_that_contradict_each_other_are_refused() -> None:
    for wrong in (
        {"lease_seconds": 5, "timeout_seconds": 10},
        {"retry_seconds_min": 100, "retry_seconds_max": 10},
        {"allowed_networks": ["10.0.0.1/8"]},
    ):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(wrong, WebhookSettings)
