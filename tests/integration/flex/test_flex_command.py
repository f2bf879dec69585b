"""`penstock flex` against a real database."""

from typing import Any

from tests.integration.cells.commands import Penstock, read

_MODEL = "@cf/moonshotai/kimi-k2.5"


def control(penstock: Penstock) -> Any:
    (shown,) = read(penstock("flex", "show", "--json"))
    assert shown["model"] == _MODEL
    return shown["control"]


def test_a_model_is_paused_limited_and_resumed(penstock: Penstock) -> None:
    assert read(penstock("flex", "show", "--json")) == []
    paused = penstock("flex", "pause", "kimi-k2.5")
    assert paused.stdout == f"flex {_MODEL} paused\n"
    assert read(penstock("flex", "limit", "kimi-k2.5", "5", "--json"))["control"] == {
        "is_paused": True,
        "in_flight_max": 5,
    }
    assert control(penstock) == {"is_paused": True, "in_flight_max": 5}
    assert penstock("flex", "resume", _MODEL).stdout == f"flex {_MODEL} runs, at most 5 a replica\n"
    assert "limit" in penstock("flex", "show").stdout
    assert penstock("flex", "limit", _MODEL).exit_code == 0
    assert control(penstock) == {"is_paused": False, "in_flight_max": None}


def test_an_unknown_model_and_a_negative_limit_are_refused(penstock: Penstock) -> None:
    assert penstock("flex", "pause", "@cf/no/such").exit_code != 0
    refused = penstock("flex", "limit", _MODEL, "--", "-1")
    assert refused.exit_code == 2
