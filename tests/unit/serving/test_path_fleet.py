"""Replicas that come and go under the path: ejected, probed, restored, let go."""

import asyncio

import pytest
from tests.unit.engine.engine_answers import (
    ANSWER,
    answer_whole,
    counted,
)
from tests.unit.engine.tiny_engine import Call, until
from tests.unit.serving.small_fleet import Fleet

from penstock.errors import (
    ReplicaUnreachable,
)
from penstock.records.replica import ReplicaId


async def test_ejected_replica_comes_back_with_its_first_healthy_probe(fleet: Fleet) -> None:
    async def sick_then_well(call: Call) -> None:
        if call.head.startswith(b"GET /health"):
            await call.answer(b"", status=200 if len(call.engine.calls) > 2 else 500)
        elif len(call.engine.calls) == 1:
            call.writer.transport.abort()
        else:
            await call.answer(ANSWER)

    engine = await fleet.add(sick_then_well)
    with pytest.raises(ReplicaUnreachable):
        await fleet.start().done()
    assert ReplicaId("r0") in fleet.router.ejections
    await fleet.prober.probe_due()
    assert len(engine.calls) == 1, "it is left alone for a second"
    fleet.clock.advance(1.0)
    await fleet.prober.probe_due()
    assert ReplicaId("r0") in fleet.router.ejections, "it answered 500"
    fleet.clock.advance(1.0)
    await fleet.prober.probe_due()
    assert ReplicaId("r0") not in fleet.router.ejections
    assert (await fleet.start().done()).sink.answer == ANSWER


async def test_replica_that_nobody_has_a_client_for_is_simply_restored(fleet: Fleet) -> None:
    fleet.router.ejections.eject(ReplicaId("unknown"), 0.0)
    await fleet.prober.probe_due()
    assert len(fleet.router.ejections) == 0


async def test_stream_on_a_replica_that_leaves_the_roster_runs_to_its_end(fleet: Fleet) -> None:
    go_on = asyncio.Event()

    async def slowly(call: Call) -> None:
        await call.begin_stream()
        await call.chunk(counted(b"a", 1))
        await go_on.wait()
        await call.chunk(b"data: [DONE]\n\n")
        await call.end_stream()

    engine = await fleet.add(slowly)
    visit = fleet.start(is_stream=True)
    await until(lambda: bool(visit.sink.events))
    client = fleet.clients.to(fleet.replicas[0])
    fleet.replicas.clear()
    fleet.clients.keep_only(())
    go_on.set()
    await visit.done()
    assert engine.accepted == 1
    await until(lambda: client.open_connections == 0)


async def test_clients_are_kept_while_their_replicas_are(fleet: Fleet) -> None:
    await fleet.add(answer_whole)
    await fleet.add(answer_whole)
    for visit in [fleet.start(), fleet.start()]:
        await visit.done()
    assert fleet.clients.open_connections() == 2
    first = fleet.clients.find(ReplicaId("r0"))
    fleet.clients.keep_only([fleet.replicas[0]])
    assert fleet.clients.find(ReplicaId("r0")) is first
    assert fleet.clients.find(ReplicaId("r1")) is None
    assert fleet.clients.open_connections() == 1
