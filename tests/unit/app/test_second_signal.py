"""What a worker does when it is told to stop, and told again."""

import asyncio
import signal
from collections.abc import Iterator

import pytest

from penstock.app.second_signal import on_second_signal

NUMBERS = (signal.SIGINT, signal.SIGTERM)


@pytest.fixture
def heard() -> Iterator[list[str]]:
    """What uvicorn's handlers would hear, and what is done beside that."""
    happened: list[str] = []
    before = {number: signal.getsignal(number) for number in NUMBERS}
    for number in NUMBERS:
        signal.signal(number, lambda number, _: happened.append(signal.Signals(number).name))
    yield happened
    for number, handler in before.items():
        signal.signal(number, handler)


def tell(heard: list[str], *numbers: signal.Signals) -> list[str]:
    async def stop() -> None:
        with on_second_signal(lambda: heard.append("abort")):
            for number in numbers:
                signal.raise_signal(number)
            await asyncio.sleep(0.3)

    asyncio.run(stop())
    return heard


@pytest.mark.parametrize("first", NUMBERS)
def test_second_ctrl_c_aborts_what_runs_before_the_server_hears_it(
    heard: list[str], first: signal.Signals
) -> None:
    assert tell(heard, first, signal.SIGINT) == [first.name, "abort", "SIGINT"]


@pytest.mark.parametrize(
    "numbers", [NUMBERS, NUMBERS[1:] * 2, NUMBERS[:1]], ids=["both", "SIGTERM twice", "once"]
)
def test_all_else_is_the_servers(heard: list[str], numbers: tuple[signal.Signals, ...]) -> None:
    """A terminal's Ctrl-C is followed by SIGTERM from the parent of several workers."""
    assert tell(heard, *numbers) == [number.name for number in numbers]


def test_handlers_are_given_back(heard: list[str]) -> None:
    tell(heard, signal.SIGINT)
    signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGINT)
    assert heard == ["SIGINT"] * 3
