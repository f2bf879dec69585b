"""A pool of a real control plane: replicas are pods, which the real scheduler places."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from lightkube.resources.core_v1 import Pod
from tests.integration.fleet.deployed_cell import until_so
from tests.integration.kubernetes.control_plane import ControlPlane
from tests.integration.kubernetes.pool_cell import (
    GANG,
    GPUS,
    PoolCell,
    pool_cell,
    until_true,
)

from penstock.records.replica import ReplicaState
from penstock.store import Store


@pytest.fixture
async def cell(store: Store, tmp_path: Path, cluster: ControlPlane) -> AsyncIterator[PoolCell]:
    async with pool_cell(store, tmp_path, cluster) as started:
        for node in ("node-1", "node-2"):
            await started.kubelet.add_node(node, GPUS)
        await started.kubelet.add_owner()
        yield started


async def ask(url: str) -> int:
    body = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}
    async with httpx.AsyncClient(trust_env=False, timeout=10) as client:
        return (await client.post(f"{url}/v1/chat/completions", json=body)).status_code


async def test_replicas_are_pods_that_are_rolled_out_scaled_and_removed(cell: PoolCell) -> None:
    await cell.apply(replicas={"min": 2, "max": 2})
    await cell.settled(2)
    pods = await cell.kubelet.pods()
    assert set(pods) == {f"replica-{each.id}" for each in cell.ready()}
    for each in cell.ready():
        assert each.host in {"node-1", "node-2"}
        assert await ask(each.url) == 200
    old = {each.id for each in cell.ready()}
    await cell.apply(replicas={"min": 2, "max": 2}, arguments=["--max-model-len", "4096"])
    await until_true(lambda: not old & {each.id for each in cell.ready()})
    await cell.settled(2)
    await cell.apply(replicas={"min": 1, "max": 1}, arguments=["--max-model-len", "4096"])
    await cell.settled(1)


async def test_what_finds_no_room_says_so_in_the_clusters_words(cell: PoolCell) -> None:
    # Eight fit on two nodes with eight GPUs each.
    await cell.apply(replicas={"min": 9, "max": 9})

    async def says_why() -> bool:
        details = [row.detail for row in await cell.rows() if row.state is ReplicaState.STARTING]
        return details == ["0/2 nodes are available: 2 Insufficient nvidia.com/gpu."]

    await until_so(says_why)
    await until_true(lambda: len(cell.ready()) == 8)
    shown = await cell.deployments.find("pods")
    assert shown.pending == "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."


async def test_a_pod_that_others_delete_is_drained_and_replaced(cell: PoolCell) -> None:
    await cell.apply()
    await cell.settled(1)
    [first] = cell.ready()
    await cell.kubelet.client.delete(Pod, f"replica-{first.id}")
    await cell.in_state(first.id, ReplicaState.GONE)
    await cell.settled(1)
    assert first.id not in {each.id for each in cell.ready()}


async def test_an_evicted_pod_is_replaced_while_its_streams_finish(cell: PoolCell) -> None:
    await cell.apply()
    await cell.settled(1)
    [first] = cell.ready()
    text = '@script {"tokens": 60, "interval": 0.1}'
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": text}]}
    url = f"{first.url}/v1/chat/completions"
    async with (
        httpx.AsyncClient(trust_env=False, timeout=30) as client,
        client.stream("POST", url, json=body) as answer,
    ):
        lines = answer.aiter_lines()
        await anext(lines)
        cell.kubelet.waiting.add(f"replica-{first.id}")
        await cell.kubelet.client.delete(Pod, f"replica-{first.id}")
        await until_true(lambda: [each.id for each in cell.ready()] not in ([], [first.id]))
        states = {row.id: row.state for row in await cell.rows()}
        assert states.pop(first.id) is ReplicaState.DRAINING
        assert list(states.values()) == [ReplicaState.READY]
        shown = await cell.deployments.find("pods")
        assert (shown.ready, shown.placed, shown.stage) == (1, 1, "done")
        rest = [line async for line in lines if line]
    assert rest[-1] == "data: [DONE]"
    cell.kubelet.waiting.clear()
    await cell.in_state(first.id, ReplicaState.GONE)
    await cell.settled(1)


async def test_an_engine_that_ends_is_replaced_under_a_new_id(cell: PoolCell) -> None:
    await cell.apply()
    await cell.settled(1)
    [first] = cell.ready()
    cell.kubelet.kill(f"replica-{first.id}")
    await cell.in_state(first.id, ReplicaState.GONE)
    [row] = [row for row in await cell.rows() if row.id == first.id]
    assert row.detail == "Error, exit code 137"
    await cell.settled(1)
    # What is left of it does not stay in the cluster.
    await until_so(lambda: _lacks(cell, f"replica-{first.id}"))


async def test_a_lost_node_is_replaced_and_its_ghost_never_listed(cell: PoolCell) -> None:
    await cell.apply()
    await cell.settled(1)
    [first] = cell.ready()
    name = f"replica-{first.id}"
    # The cluster deletes the pods of a node that it does not hear of; nobody ends them there.
    cell.kubelet.lost.add(first.host)
    cell.kubelet.kill(name)
    await cell.kubelet.client.delete(Pod, name)
    await cell.in_state(first.id, ReplicaState.GONE)
    other = {"node-1": "node-2", "node-2": "node-1"}[first.host]
    await until_true(lambda: [each.host for each in cell.ready()] == [other])
    assert name in await cell.kubelet.pods()
    await asyncio.sleep(1.0)
    assert first.id not in {each.id for each in cell.mirror.all()}
    cell.kubelet.lost.clear()
    await until_so(lambda: _lacks(cell, name))


async def test_a_keeper_that_comes_back_adopts_its_pods(cell: PoolCell) -> None:
    await cell.apply(replicas={"min": 2, "max": 2})
    await cell.settled(2)
    before = {each.id for each in cell.ready()}
    await cell.stop_keeper()
    cell.start_keeper()
    await asyncio.sleep(2.0)
    await cell.settled(2)
    assert {each.id for each in cell.ready()} == before


async def test_a_keeper_takes_its_lock_again_when_its_session_was_lost(cell: PoolCell) -> None:
    await cell.apply()
    await cell.settled(1)
    [first] = cell.ready()
    await cell.lose_lock()
    await cell.apply(replicas={"min": 2, "max": 2})
    await cell.settled(2)
    assert first.id in {each.id for each in cell.ready()}


async def test_a_keeper_that_lost_its_pool_to_another_touches_no_pod(cell: PoolCell) -> None:
    await cell.apply()
    await cell.settled(1)
    [first] = cell.ready()
    async with cell.another_keepers_lock():
        await cell.until_keeper_ends()
        assert await ask(first.url) == 200
        assert f"replica-{first.id}" in await cell.kubelet.pods()
    cell.start_keeper()
    await cell.settled(1)
    assert [each.id for each in cell.ready()] == [first.id]


async def test_nothing_changes_while_the_api_server_is_away(
    cell: PoolCell, cluster: ControlPlane
) -> None:
    await cell.apply()
    await cell.settled(1)
    [first] = cell.ready()
    cluster.stop_server()
    try:
        # Longer than what is heard of pods may be old.
        await asyncio.sleep(12.0)
        assert [each.id for each in cell.ready()] == [first.id]
        assert await ask(first.url) == 200
        # A keeper that starts meanwhile does not know its pods, and gives none of them up.
        await cell.stop_keeper()
        cell.start_keeper()
        await asyncio.sleep(3.0)
        assert [each.id for each in cell.ready()] == [first.id]
    finally:
        # Not in a thread: the server would end with that.
        cluster.start_server()
    await cell.apply(replicas={"min": 2, "max": 2})
    await cell.settled(2)
    assert first.id in {each.id for each in cell.ready()}


async def test_a_replica_over_two_pods_starts_and_ends_as_one(cell: PoolCell) -> None:
    await cell.apply(GANG)
    await cell.settled(1, GANG)
    [first] = cell.ready(GANG)
    names = {f"replica-{first.id}", f"replica-{first.id}-1"}
    assert set(await cell.kubelet.pods()) == names
    assert await ask(first.url) == 200
    cell.kubelet.kill(f"replica-{first.id}-1")
    await cell.in_state(first.id, ReplicaState.GONE)
    await cell.settled(1, GANG)
    assert not names & set(await cell.kubelet.pods())


async def _lacks(cell: PoolCell, name: str) -> bool:
    return name not in await cell.kubelet.pods()
