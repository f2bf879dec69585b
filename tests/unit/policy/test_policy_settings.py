"""Policy's settings refuse what would break its promise of 5 s."""

import msgspec
import pytest

from penstock.policy import PolicySettings


def test_defaults_keep_the_promise() -> None:
    settings = msgspec.convert({}, PolicySettings)
    assert settings == PolicySettings()
    assert settings.refresh_seconds < 5


@pytest.mark.parametrize(
    "wrong", [{"refresh_seconds": 5}, {"keys_max": 0}, {"load_attempts_max": 0}, {"refresh": 1}]
)
def test_a_wrong_setting_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wrong, PolicySettings)
