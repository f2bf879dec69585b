"""The functions that tools which run here become."""

import pytest

from penstock.wire.apis.server_tools import python_function


@pytest.mark.parametrize(
    ("pattern", "schema"),
    [
        ("", {"type": "string"}),
        (r"print\([0-9]+\)", {"type": "string", "pattern": r"print\([0-9]+\)"}),
    ],
)
def test_code_is_held_to_the_pattern_of_its_model(pattern: str, schema: dict[str, str]) -> None:
    function = python_function("Runs code.", pattern).as_chat()["function"]
    assert function["strict"] is True
    assert function["parameters"] == {
        "type": "object",
        "properties": {"code": schema},
        "required": ["code"],
        "additionalProperties": False,
    }
