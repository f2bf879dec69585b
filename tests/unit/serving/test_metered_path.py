"""What an attempt leaves in the journal, and when: before the engine's first byte and our last."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.unit.engine.engine_answers import (
    DONE,
    EVENT,
    TOTAL,
    answer_stream,
    answer_whole,
    counted,
)
from tests.unit.engine.engine_line import Collector, make_request
from tests.unit.engine.tiny_engine import Call, until
from tests.unit.metering.journal_files import PRICE, facts_of, read_all
from tests.unit.serving.small_fleet import Fleet, busy, die_before_a_word, silent

from penstock.clock import new_id
from penstock.errors import EngineFailed, EngineLost, JournalFull
from penstock.records.price import cost_nanousd
from penstock.records.request import RequestEnd, RequestId
from penstock.records.usage import Usage

Facts = dict[str, str | None]


def rows(fleet: Fleet) -> list[Facts]:
    return [facts_of(row) for row in fleet.rows()]


def left_open(fleet: Fleet) -> list[Facts]:
    """What whoever adopts the journal would make of it, were this worker killed now."""
    return [facts_of(row) for row in read_all(fleet.journal.folder)[1]]


class Watch(Collector):
    """A sink that looks into the journal whenever it is given something."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__()
        self._fleet = fleet
        self.seen: list[tuple[bytes, list[Facts], list[Facts]]] = []

    def push(self, events: bytes) -> None:
        self._look(events)
        super().push(events)

    def whole(self, shaped: bytes, usage: Usage | None) -> None:
        self._look(shaped)
        super().whole(shaped, usage)

    def _look(self, data: bytes) -> None:
        self.seen.append((data, rows(self._fleet), left_open(self._fleet)))


class Visit:
    """One priced request with an id of its own, into a sink that watches."""

    def __init__(self, fleet: Fleet, *, is_stream: bool = True, **facts: object) -> None:
        self.sink = Watch(fleet)
        self.end = RequestEnd()
        made: dict[str, Any] = {"id": RequestId(new_id()), "price": PRICE, **facts}
        request = make_request(is_stream=is_stream, **made)
        self.task = asyncio.ensure_future(fleet.path.run(request, self.sink, self.end))

    async def leave(self) -> None:
        self.sink.is_gone = True
        self.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await self.task


async def test_engine_gets_no_byte_before_the_journal_has_the_opening(fleet: Fleet) -> None:
    seen: list[list[Facts]] = []

    async def look(call: Call) -> None:
        seen.append(left_open(fleet))
        await answer_whole(call)

    await fleet.add(look)
    visit = Visit(fleet, is_stream=False)
    await visit.task
    ((opened,),) = seen
    assert (opened["attempt"], opened["replica"]) == ("1", "r0")
    assert left_open(fleet) == []


@pytest.mark.parametrize("is_stream", [True, False])
async def test_caller_gets_no_last_byte_before_the_journal_has_the_end(
    fleet: Fleet, is_stream: bool
) -> None:
    await fleet.add(answer_stream if is_stream else answer_whole)
    visit = Visit(fleet, is_stream=is_stream)
    await visit.task
    data, closed, opened = visit.sink.seen[-1]
    assert data.endswith(DONE) or not is_stream
    assert opened == []
    (row,) = closed
    assert rows(fleet) == closed, "nothing changes afterwards"
    assert (row["outcome"], row["prompt_tokens"], row["output_tokens"]) == ("ok", "3", "2")
    assert row["charge_nanousd"] == str(cost_nanousd(Usage(3, 2, 1), PRICE))
    assert visit.end.charge_nanousd == cost_nanousd(Usage(3, 2, 1), PRICE)


async def test_kill_after_any_piece_bills_at_least_what_the_caller_has(fleet: Fleet) -> None:
    async def slowly(call: Call) -> None:
        await call.begin_stream()
        for made in range(1, 6):
            await call.chunk(counted(b"x", made))
            await until(lambda made=made: len(fleet_visit.sink.events) == made)  # type: ignore[misc]
        await call.chunk(TOTAL + DONE)
        await call.end_stream()

    await fleet.add(slowly)
    fleet_visit = Visit(fleet)
    await fleet_visit.task
    for made, (_, closed, opened) in enumerate(fleet_visit.sink.seen[:5], start=1):
        assert closed == []
        (row,) = opened
        assert (row["outcome"], row["output_tokens"]) == ("interrupted", str(made))


async def test_choices_of_one_request_are_added_up(fleet: Fleet) -> None:
    def choice(index: int, made: int) -> bytes:
        event = EVENT % (b"x", b',"usage":{"prompt_tokens":3,"completion_tokens":%d}' % made)
        return event.replace(b'"index":0', b'"index":%d' % index)

    async def both(call: Call) -> None:
        await call.begin_stream()
        await call.chunk(choice(0, 4) + choice(1, 7))
        await call.wait_until_dropped()

    await fleet.add(both)
    visit = Visit(fleet, choices=2)
    await until(lambda: bool(visit.sink.events))
    (row,) = visit.sink.seen[0][2]
    assert (row["prompt_tokens"], row["output_tokens"]) == ("3", "11")
    await visit.leave()
    (row,) = rows(fleet)
    assert (row["outcome"], row["output_tokens"]) == ("client_left", "11")


@pytest.mark.parametrize("is_stream", [True, False])
async def test_client_that_leaves_before_anything_came_pays_for_the_estimated_prompt(
    fleet: Fleet, is_stream: bool
) -> None:
    engine = await fleet.add(silent)
    visit = Visit(fleet, is_stream=is_stream, prompt_tokens_estimate=700, output_tokens_max=50)
    await until(lambda: bool(engine.calls))
    await visit.leave()
    (row,) = rows(fleet)
    assert (row["outcome"], row["charge_reason"]) == ("client_left", "estimated")
    assert (row["prompt_tokens"], row["output_tokens"]) == ("700", "0")
    assert (row["cached_tokens"], row["is_cached_estimated"]) == (None, "0")
    charge = cost_nanousd(Usage(700, 0), PRICE)
    assert (row["charge_nanousd"], visit.end.charge_nanousd) == (str(charge), charge)
    assert visit.end.tokens == 700


@pytest.mark.parametrize("is_stream", [True, False])
async def test_gateway_that_stops_before_anything_came_charges_nothing(
    fleet: Fleet, is_stream: bool
) -> None:
    engine = await fleet.add(silent)
    visit = Visit(fleet, is_stream=is_stream, prompt_tokens_estimate=700)
    await until(lambda: bool(engine.calls))
    visit.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await visit.task
    (row,) = rows(fleet)
    assert (row["outcome"], row["charge_nanousd"]) == ("interrupted", "0")
    assert (row["prompt_tokens"], visit.end.tokens) == (None, 0)


async def test_only_the_try_that_its_caller_left_is_charged(fleet: Fleet) -> None:
    await fleet.add(die_before_a_word)
    waiting = await fleet.add(silent)
    while True:
        # Either may be asked first; go on until the failing one was.
        visit = Visit(fleet, prompt_tokens_estimate=700)
        await until(lambda visit=visit: visit.end.replica == "r1" and bool(waiting.calls))  # type: ignore[misc]
        await visit.leave()
        if visit.end.attempts == 2:
            break
        fleet.router.ejections.restore(fleet.replicas[0].id)
    failed, left = rows(fleet)[-2:]
    assert (failed["attempt"], failed["outcome"], failed["charge_nanousd"]) == ("1", "failed", "0")
    assert failed["prompt_tokens"] is None
    assert (left["attempt"], left["charge_reason"]) == ("2", "estimated")
    assert left["charge_nanousd"] == str(cost_nanousd(Usage(700, 0), PRICE))
    assert visit.end.tokens == 700


async def test_client_that_leaves_in_the_stream_pays_for_what_was_made(fleet: Fleet) -> None:
    async def some(call: Call) -> None:
        await call.begin_stream()
        await call.chunk(counted(b"a", 1) + counted(b"b", 2))
        await call.wait_until_dropped()

    await fleet.add(some)
    visit = Visit(fleet)
    await until(lambda: bool(visit.sink.events))
    await visit.leave()
    (row,) = rows(fleet)
    assert (row["outcome"], row["output_tokens"]) == ("client_left", "2")
    assert (row["cached_tokens"], row["is_cached_estimated"]) == ("0", "1"), "nothing was expected"
    assert row["charge_nanousd"] == str(cost_nanousd(Usage(3, 2), PRICE))
    assert visit.end.charge_nanousd == cost_nanousd(Usage(3, 2), PRICE)


async def test_gateway_that_stops_says_that_it_was_its_own_doing(fleet: Fleet) -> None:
    async def some(call: Call) -> None:
        await call.begin_stream()
        await call.chunk(counted(b"a", 1))
        await call.wait_until_dropped()

    await fleet.add(some)
    visit = Visit(fleet)
    await until(lambda: bool(visit.sink.events))
    visit.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await visit.task
    (row,) = rows(fleet)
    assert (row["outcome"], row["error"], row["output_tokens"]) == ("interrupted", "aborted", "1")


async def test_whole_answer_that_is_cut_has_no_usage_and_no_charge(fleet: Fleet) -> None:
    async def half(call: Call) -> None:
        await call.send(b'HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{"usage":{')
        call.writer.transport.abort()

    await fleet.add(half)
    visit = Visit(fleet, is_stream=False)
    with pytest.raises(EngineLost):
        await visit.task
    (row,) = rows(fleet)
    assert (row["outcome"], row["charge_nanousd"]) == ("failed", "0")
    assert row["prompt_tokens"] is None


@pytest.mark.parametrize("fails", [die_before_a_word, busy])
async def test_second_try_has_its_own_row_and_the_only_charge(
    fleet: Fleet, fails: Callable[[Call], Any]
) -> None:
    await fleet.add(fails)
    await fleet.add(answer_stream)
    while len(rows(fleet)) < 2 or rows(fleet)[-1]["attempt"] != "2":
        # Either may be asked first; go on until the failing one was.
        await Visit(fleet).task
    failed, served = rows(fleet)[-2:]
    assert failed["request"] == served["request"]
    assert (failed["attempt"], served["attempt"]) == ("1", "2")
    assert (failed["outcome"], served["outcome"]) == ("failed", "ok")
    assert failed["charge_nanousd"] == "0"
    assert failed["output_tokens"] is None
    assert served["charge_nanousd"] == str(cost_nanousd(Usage(3, 2, 1), PRICE))


async def test_engine_lost_in_the_stream_is_charged_for_what_was_delivered(fleet: Fleet) -> None:
    async def dies(call: Call) -> None:
        await call.begin_stream()
        await call.chunk(counted(b"a", 1))
        call.writer.transport.abort()

    await fleet.add(dies)
    visit = Visit(fleet)
    with pytest.raises(EngineLost):
        await visit.task
    (row,) = rows(fleet)
    assert (row["outcome"], row["error"], row["output_tokens"]) == ("failed", "engine_lost", "1")
    assert row["charge_nanousd"] == str(cost_nanousd(Usage(3, 1), PRICE))


async def test_error_that_the_engine_says_in_its_stream_is_a_failure(fleet: Fleet) -> None:
    async def errs(call: Call) -> None:
        await call.begin_stream()
        await call.chunk(counted(b"a", 1) + b'data: {"error":{"message":"x"}}\n\n' + DONE)
        await call.end_stream()

    await fleet.add(errs)
    await Visit(fleet).task
    (row,) = rows(fleet)
    assert (row["outcome"], row["error"]) == ("failed", "engine_failed")
    assert row["output_tokens"] == "1"


async def test_answer_that_cannot_be_shaped_is_not_charged(fleet: Fleet) -> None:
    """The caller gets an error and nothing of the answer, whatever the engine counted."""
    await fleet.add(answer_whole)
    visit = Visit(fleet, is_stream=False)

    def refuse(answer: bytes) -> bytes:
        raise EngineFailed(f"not a completion: {len(answer)}")

    visit.sink.shape = refuse  # type: ignore[method-assign]
    with pytest.raises(EngineFailed):
        await visit.task
    (row,) = rows(fleet)
    assert (row["outcome"], row["charge_nanousd"]) == ("failed", "0")
    assert (row["charge_reason"], row["output_tokens"]) == ("not_delivered", "2")
    assert visit.end.charge_nanousd == 0


async def test_full_journal_refuses_before_the_engine_hears_of_it(fleet: Fleet) -> None:
    engine = await fleet.add(answer_whole)
    slots = [fleet.journal.slots.take() for _ in range(64)]
    visit = Visit(fleet, is_stream=False)
    with pytest.raises(JournalFull):
        await visit.task
    assert engine.calls == []
    assert visit.end.attempts == 0
    for slot in slots:
        fleet.journal.slots.free(slot)
    await Visit(fleet, is_stream=False).task
    assert len(rows(fleet)) == 1


async def test_replica_that_cannot_even_be_called_leaves_nothing_open(fleet: Fleet) -> None:
    await fleet.add(answer_whole)
    fleet.replicas[0] = msgspec.structs.replace(fleet.replicas[0], url="http://[")
    for _ in range(100):
        with pytest.raises(ValueError, match="URL"):
            await Visit(fleet, is_stream=False).task
    assert left_open(fleet) == []
    assert rows(fleet) == []


async def test_more_requests_than_slots_are_served_one_after_the_other(fleet: Fleet) -> None:
    await fleet.add(answer_whole)
    for _ in range(70):
        await Visit(fleet, is_stream=False).task
    assert len(rows(fleet)) == 70
