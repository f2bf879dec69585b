"""Hostile code stays in its container, and harms no other one."""

import time
from pathlib import Path

import pytest
from tests.integration.sandbox.conftest import StartBox
from tests.integration.sandbox.hostile_code import BOMBS, ESCAPES
from tests.integration.sandbox.run_code import run_code, text_of

from penstock.sandbox.box import BoxLost
from penstock.wire.resources.sandbox import Output

pytestmark = pytest.mark.usefixtures("at_full_length")


def test_what_is_looked_for_is_there_outside() -> None:
    assert [
        each.on_host for each in ESCAPES.values() if not Path(each.on_host or "/").exists()
    ] == []


async def test_hostile_code_does_not_leave_its_container(start_box: StartBox) -> None:
    box = await start_box()
    for name, escape in ESCAPES.items():
        events = await run_code(box, escape.code)
        printed = "".join(event.text for event in events if isinstance(event, Output))
        assert "ESCAPED" not in printed, (name, printed)
        assert text_of(events).strip().endswith(escape.refusal), (name, text_of(events))
    assert text_of(await run_code(box, "6 * 7")) == "42"


@pytest.mark.timeout(180)
async def test_a_bomb_harms_its_own_container_only(start_box: StartBox) -> None:
    neighbour = await start_box()
    for name, bomb in BOMBS.items():
        box = await start_box()
        await run_code(box, "state = 6")
        if bomb.is_kept:
            text = text_of(await run_code(box, bomb.code, bomb.seconds)).strip()
            assert text.endswith(bomb.outcome), (name, text[-1000:])
            assert text_of(await run_code(box, "state")) == "6", name
        else:
            with pytest.raises(BoxLost) as lost:
                await run_code(box, bomb.code, bomb.seconds)
            assert str(lost.value).startswith(bomb.outcome), (name, lost.value)
        began = time.monotonic()
        assert text_of(await run_code(neighbour, "6 * 7")) == "42", name
        assert time.monotonic() - began < 2.0, name
