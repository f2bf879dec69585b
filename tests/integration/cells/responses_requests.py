"""Requests for the Responses API."""

from typing import Any

from tests.integration.cells.gateway_cell import CHAT, prompt

Body = dict[str, Any]


def ask(script: Body | None = None, text: str = "hello", **fields: object) -> Body:
    """A request whose input is one text."""
    return {"model": CHAT, "input": prompt(script, text)[0]["content"], **fields}
