"""The store's settings refuse what cannot work."""

import msgspec
import pytest

from penstock.store import StoreSettings


def test_defaults_work_on_a_laptop() -> None:
    assert msgspec.convert({}, StoreSettings) == StoreSettings()


@pytest.mark.parametrize(
    "wrong",
    [
        {"pool_size_min": 5, "pool_size_max": 4},
        {"pool_size_max": 0},
        {"acquire_seconds": 0},
        {"statement_seconds": -1},
        {"poolsize": 3},
    ],
)
def test_a_wrong_setting_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wrong, StoreSettings)
