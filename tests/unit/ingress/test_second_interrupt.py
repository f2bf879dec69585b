"""What a worker does when it is told to stop, and told again."""

import asyncio
import signal
from collections.abc import Iterator

import pytest

from penstock.ingress.server import abort_on_second_interrupt

INT, TERM = signal.SIGINT, signal.SIGTERM


@pytest.fixture
def heard() -> Iterator[list[str]]:
    """What uvicorn's handlers would hear, and what is done beside that."""
    happened: list[str] = []
    before = {number: signal.getsignal(number) for number in (INT, TERM)}
    for number in (INT, TERM):
        signal.signal(number, lambda number, _: happened.append(signal.Signals(number).name))
    yield happened
    for number, handler in before.items():
        signal.signal(number, handler)


def tell(heard: list[str], *numbers: signal.Signals) -> list[str]:
    async def stop() -> None:
        with abort_on_second_interrupt(lambda: heard.append("abort")):
            for number in numbers:
                signal.raise_signal(number)
                await asyncio.sleep(0)

    asyncio.run(stop())
    return heard


@pytest.mark.parametrize("first", [INT, TERM])
def test_second_ctrl_c_aborts_and_the_third_is_the_servers(
    heard: list[str], first: signal.Signals
) -> None:
    assert tell(heard, first, INT, INT) == [first.name, "abort", "SIGINT"]


def test_ctrl_c_that_the_parent_repeats_as_sigterm_counts_once(heard: list[str]) -> None:
    """A terminal's Ctrl-C is followed by SIGTERM from the parent of several workers."""
    assert tell(heard, INT, TERM, INT) == ["SIGINT", "SIGTERM", "abort"]


@pytest.mark.parametrize("numbers", [(INT,), (TERM,), (TERM, TERM)])
def test_all_else_is_the_servers(heard: list[str], numbers: tuple[signal.Signals, ...]) -> None:
    assert tell(heard, *numbers) == [number.name for number in numbers]


def test_handlers_are_given_back(heard: list[str]) -> None:
    tell(heard, INT)
    signal.raise_signal(INT)
    signal.raise_signal(INT)
    assert heard == ["SIGINT"] * 3
