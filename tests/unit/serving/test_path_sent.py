"""The order of one try: the journal has it and the router counts it before the engine gets it."""

import pytest
from tests.unit.engine.engine_answers import answer_stream, answer_whole
from tests.unit.engine.tiny_engine import Call
from tests.unit.serving.small_fleet import Fleet

from penstock.engine.connection import Connection
from penstock.engine.replica import ReplicaClient


async def test_a_request_is_counted_while_it_waits_for_a_connection(fleet: Fleet) -> None:
    counts: list[int] = []

    async def answer(call: Call) -> None:
        counts.append(fleet.router.in_flight())
        await answer_whole(call)

    await fleet.add(answer)
    visit = fleet.start()
    connect = fleet.clients.to(fleet.replicas[0])._pool.connect

    async def counted_connect() -> Connection:
        counts.append(fleet.router.in_flight())
        return await connect()

    fleet.clients.to(fleet.replicas[0])._pool.connect = counted_connect  # type: ignore[method-assign]
    await visit.done()
    assert counts == [1, 1]


@pytest.mark.parametrize("is_stream", [False, True])
async def test_on_a_kept_connection_it_is_written_down_and_counted_before_it_is_sent(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, is_stream: bool
) -> None:
    told: list[str] = []
    await fleet.add(answer_stream if is_stream else answer_whole)
    await fleet.start(is_stream=is_stream).done()
    send, sent, opened = Connection.send, fleet.router.sent, fleet.journal.open

    def note(name: str, known: object) -> object:
        def noted(*args: object, **facts: object) -> object:
            told.append(name)
            return known(*args, **facts)  # type: ignore[operator]

        return noted

    monkeypatch.setattr(Connection, "send", note("send", send))
    monkeypatch.setattr(fleet.router, "sent", note("counted", sent))
    monkeypatch.setattr(fleet.journal, "open", note("journal", opened))
    visit = fleet.start(is_stream=is_stream)
    await visit.done()
    assert told == ["journal", "counted", "send"]
    assert visit.end.attempts == 1


async def test_what_fails_before_it_is_sent_is_not_left_counted(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KeyError("messages")

    await fleet.add(answer_whole)
    monkeypatch.setattr(ReplicaClient, "_pieces", fail)
    with pytest.raises(KeyError):
        await fleet.start().done()
    assert fleet.router.in_flight() == 0
    monkeypatch.undo()
    await fleet.start().done()


async def test_what_fails_between_the_count_and_the_send_sends_nothing(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KeyError("gate")

    engine = await fleet.add(answer_stream)
    await fleet.start(is_stream=True).done()
    monkeypatch.setattr(fleet.gate, "let_next", fail)
    visit = fleet.start(is_stream=True)
    with pytest.raises(KeyError):
        await visit.done()
    monkeypatch.undo()
    assert visit.sink.events == []
    assert len(engine.calls) == 1
    assert fleet.router.in_flight() == 0
    await fleet.start(is_stream=True).done()
    assert engine.accepted == 1
