"""Settings of control that are refused, because nobody could mean them."""

from typing import Any

import pytest

from penstock.console.settings import ControlSettings


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"console_person_header": "x-forwarded-user"}, "need each other"),
        ({"console_proxy_networks": ("10.0.0.0/8",)}, "need each other"),
        (
            {"console_person_header": "x-user", "console_proxy_networks": ("10.0.0.1/8",)},
            "host bits",
        ),
    ],
)
def test_a_proxy_that_signs_people_in_is_named_whole(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        ControlSettings(**settings)
