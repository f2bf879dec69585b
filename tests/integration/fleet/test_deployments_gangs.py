"""Replicas over two hosts: they start, fail, drain and move as one."""

import asyncio
import fcntl
import json
import signal
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from tests.integration.fleet.deployed_cell import GANG, DeployedCell, deployed_cell, until_so
from tests.integration.fleet.watched_keeper import until

from penstock.catalogue import Catalogue
from penstock.errors import Conflict
from penstock.fleet.cell.deployment_rows import read_cell
from penstock.fleet.cell.load_rows import CellLoads
from penstock.fleet.orders import OrderTable, ReplicaOrder
from penstock.fleet.processes import signal_group
from penstock.fleet.replica_rows import ReplicaRows
from penstock.fleet.weights.weight_folder import folder_of, is_complete
from penstock.records.model import Weights
from penstock.records.replica import ReplicaState
from penstock.store import Store


async def start_gang(cell: DeployedCell, **fields: Any) -> dict[str, Any]:
    """Wait for one replica on two hosts; return its first part's state file."""
    await cell.apply("gang", model=GANG, **fields)
    await cell.settled(1, "gang")
    return first_part(cell)


def first_part(cell: DeployedCell) -> dict[str, Any]:
    [first] = [state for state in cell.engines() if not state["leader"]]
    return first


def other_part(cell: DeployedCell) -> dict[str, Any]:
    [other] = [state for state in cell.engines() if state["leader"]]
    return other


async def test_a_replica_over_two_hosts_serves_through_its_first_part(
    store: Store, hosts_folder: Path
) -> None:
    async with deployed_cell(store, hosts_folder, hosts=2) as cell:
        first = await start_gang(cell)
        other = other_part(cell)
        assert (other["leader"], len(other["gpus"])) == (first["id"], 4)
        assert "--headless" in other["argv"]
        assert "--headless" not in first["argv"]
        # Gateways know the first part alone, and it answers.
        assert [each.id for each in cell.mirror.all()] == [first["id"]]
        answer = await ask(first["url"])
        assert answer.status_code == 200
        rows = {row.id: row for row in await ReplicaRows(store).read()}
        assert rows[other["id"]].leader == first["id"]
        with pytest.raises(Conflict, match=f"part of replica {first['id']}"):
            await OrderTable(store).ask(other["id"], ReplicaOrder.DRAIN)


async def test_how_long_other_parts_take_to_start_does_not_count(
    store: Store, hosts_folder: Path
) -> None:
    async with deployed_cell(store, hosts_folder, hosts=2) as cell:
        await start_gang(cell, replicas={"min": 1, "max": 2})
        async with store.transaction() as tx:
            await tx.execute("update replicas set ready_at = started_at + interval '600 s'")
            # Another one of the same model starts: its other part runs at once.
            await tx.execute(
                "update replicas set ready_at = ready_at + interval '1 s',"
                " started_at = ready_at where leader <> ''"
            )
            deployments = (await read_cell(tx)).deployments
            loads = await CellLoads().read(tx, deployments, 0.0)
        assert loads["gang"].last_start_seconds == pytest.approx(600.0)


async def test_the_first_part_waits_until_all_hosts_have_the_weights(
    store: Store, hosts_folder: Path
) -> None:
    source = hosts_folder / "weights"
    source.mkdir()
    (source / "model.safetensors").write_bytes(b"weights")
    async with deployed_cell(store, hosts_folder, hosts=0) as cell:
        cell.catalogue = _with_weights(cell.catalogue, str(source))
        for name in ("gpu-1", "gpu-2"):
            cell.add_host(name, weights_folder=str(hosts_folder / f"{name}-weights"))
        target = folder_of(str(hosts_folder / "gpu-2-weights"), str(source))
        target.parent.mkdir()
        with target.with_name(f"{target.name}.lock").open("ab") as lock:
            # Somebody else fetches there, and takes his time.
            fcntl.flock(lock, fcntl.LOCK_EX)
            await cell.apply("gang", model=GANG)

            async def waits() -> bool:
                shown = await cell.shown("gang")
                return "gpu-2 waits for another process" in shown.fetches

            await until_so(waits)
            first = folder_of(str(hosts_folder / "gpu-1-weights"), str(source))
            await until(lambda: is_complete(first, str(source)))
            await asyncio.sleep(1.0)
            assert not cell.engines()
        await cell.settled(1, "gang")
        assert len(cell.engines()) == 2


def _with_weights(catalogue: Catalogue, source: str) -> Catalogue:
    model = catalogue.find(GANG)
    recipe = msgspec.structs.replace(
        model.recipe, environment={"FOLDER": "{weights}"}, weights=Weights(source, 0.1)
    )
    return Catalogue([msgspec.structs.replace(model, recipe=recipe)])


async def test_a_gang_finds_both_hosts_or_waits(store: Store, hosts_folder: Path) -> None:
    async with deployed_cell(store, hosts_folder, hosts=2) as cell:
        await cell.apply("pair")
        await cell.settled(1)
        await cell.apply("gang", model=GANG)

        async def waits() -> bool:
            shown = await cell.shown("gang")
            return (
                "needs 4 GPUs on each of 2 hosts; 1 of 2 that reach each other have them"
                in shown.waits
            )

        await until_so(waits)
        assert len(cell.engines()) == 1
        cell.add_host("gpu-3")
        await cell.settled(1, "gang")


@pytest.mark.parametrize("killed", ["first", "other"])
async def test_a_gang_fails_and_starts_again_as_one(
    store: Store, hosts_folder: Path, killed: str
) -> None:
    async with deployed_cell(store, hosts_folder, hosts=2) as cell:
        first = await start_gang(cell)
        other = other_part(cell)
        victim = first if killed == "first" else other
        signal_group(victim["engine_pid"], signal.SIGKILL)
        await until(lambda: not {first["id"], other["id"]} & {e["id"] for e in cell.engines()})
        await until(lambda: len(cell.engines()) == 2)
        await cell.settled(1, "gang")
        again = first_part(cell)
        assert other_part(cell)["leader"] == again["id"] != first["id"]
        assert (await ask(again["url"])).status_code == 200
        ended = await ReplicaRows(store).find(first["id"])
        assert ended is not None
        assert ended.state is ReplicaState.GONE


async def test_a_keeper_that_comes_back_adopts_its_part(store: Store, hosts_folder: Path) -> None:
    async with deployed_cell(store, hosts_folder, hosts=2) as cell:
        await start_gang(cell)
        before = {state["id"] for state in cell.engines()}
        for host in list(cell.hosts.values()):
            await host.stop()
            cell.start_again(host)
        await asyncio.sleep(1.5)
        await cell.settled(1, "gang")
        assert {state["id"] for state in cell.engines()} == before


async def test_a_drained_host_lets_its_gang_finish_and_move(
    store: Store, hosts_folder: Path
) -> None:
    async with deployed_cell(store, hosts_folder, hosts=3) as cell:
        first = await start_gang(cell)
        other = other_part(cell)
        [host] = [h.name for h in cell.hosts.values() if other["id"] in ids(h.engines())]
        async with asyncio.TaskGroup() as tasks:
            stream = tasks.create_task(ask(first["url"], tokens=8, interval=0.25))
            await asyncio.sleep(0.5)
            await OrderTable(store).cordon(host, is_cordoned=True, is_draining=True)
        answer = stream.result()
        # The part that computes on the drained host stays until the stream is whole.
        said = [json.loads(line[6:]) for line in answer.text.split("\n") if line[:7] == "data: {"]
        assert (answer.status_code, said[-1]["choices"][0]["finish_reason"]) == (200, "stop")
        assert answer.text.rstrip().endswith("data: [DONE]")
        await until(lambda: not cell.hosts[host].engines())
        await cell.settled(1, "gang")
        assert first_part(cell)["id"] != first["id"]
        assert not cell.hosts[host].engines()


async def test_a_gang_that_lost_a_host_is_placed_again(store: Store, hosts_folder: Path) -> None:
    async with deployed_cell(store, hosts_folder, hosts=3) as cell:
        first = await start_gang(cell)
        other = other_part(cell)
        [host] = [h for h in cell.hosts.values() if other["id"] in ids(h.engines())]
        # The keeper is gone for good, and its engine with the machine.
        await host.stop()
        signal_group(other["engine_pid"], signal.SIGKILL)
        await until(lambda: first["id"] not in ids(cell.engines()), 30.0)
        await until(lambda: len(cell.engines()) == 2, 30.0)
        await cell.settled(1, "gang")
        assert host.name not in {h.name for h in hosts_of_gang(cell)}
        assert (await ask(first_part(cell)["url"])).status_code == 200
        cell.start_again(host)


def hosts_of_gang(cell: DeployedCell) -> list[Any]:
    return [host for host in cell.hosts.values() if host.engines()]


def ids(states: list[dict[str, Any]]) -> set[str]:
    return {state["id"] for state in states}


async def ask(url: str, tokens: int = 2, interval: float = 0.0) -> httpx.Response:
    script = json.dumps({"tokens": tokens, "interval": interval})
    body = {
        "model": "m",
        "stream": True,
        "messages": [{"role": "user", "content": f"@script {script}"}],
    }
    async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
        return await client.post(f"{url}/v1/chat/completions", json=body)
