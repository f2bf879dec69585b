"""The workers' numbers on their way to `/metrics`: each worker once, dead ones left out."""

import asyncio
import http.client
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.ingress.metrics_page import MetricsServer, WorkerCounts, collect, hand_out
from penstock.telemetry.metrics import Gauges, LabelRow, Row, Snapshot


def snapshot(tokens: int) -> Snapshot:
    row = Row("m", "a")
    row.prompt_tokens = tokens
    return Snapshot([row], Gauges(client_connections=tokens))


async def serve(folder: Path, name: str, answer: bytes) -> asyncio.Server:
    async def tell(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        writer.close()

    return await asyncio.start_unix_server(tell, folder / f"{name}.sock")


def collected(folder: Path) -> list[Snapshot]:
    return list(collect(folder).values())


async def test_worker_hands_out_its_numbers_as_they_are_now(tmp_path: Path) -> None:
    tokens = 1
    server = await hand_out(lambda: snapshot(tokens), tmp_path)
    assert await asyncio.to_thread(collected, tmp_path) == [snapshot(1)]
    tokens = 2
    assert await asyncio.to_thread(collected, tmp_path) == [snapshot(2)]
    server.close()


async def test_worker_that_died_is_left_out_and_its_socket_removed(tmp_path: Path) -> None:
    server = await hand_out(lambda: snapshot(1), tmp_path)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "dead.sock"))
    assert await asyncio.to_thread(collected, tmp_path) == [snapshot(1)]
    assert not (tmp_path / "dead.sock").exists()
    server.close()


async def test_worker_that_is_just_starting_is_not_taken_for_a_dead_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its socket is bound a moment before anybody can connect to it."""
    real = asyncio.start_unix_server
    seen: list[list[Snapshot]] = []

    async def start_slowly(answer: Callable[..., Any], path: Path) -> asyncio.Server:
        server = await real(answer, path, start_serving=False)
        seen.append(await asyncio.to_thread(collected, tmp_path))
        await server.start_serving()
        return server

    monkeypatch.setattr(asyncio, "start_unix_server", start_slowly)
    server = await hand_out(lambda: snapshot(1), tmp_path)
    assert seen == [[]]
    assert await asyncio.to_thread(collected, tmp_path) == [snapshot(1)]
    server.close()


@pytest.mark.parametrize("answer", [b"", b"not json", b"{}", b'{"rows":1}'])
async def test_worker_that_talks_nonsense_is_left_out(tmp_path: Path, answer: bytes) -> None:
    good = await hand_out(lambda: snapshot(1), tmp_path)
    bad = await serve(tmp_path, "bad", answer)
    assert await asyncio.to_thread(collected, tmp_path) == [snapshot(1)]
    good.close()
    bad.close()


async def test_counters_of_a_worker_that_ended_stay_and_its_gauges_go(tmp_path: Path) -> None:
    """A sum that falls would look like a restart, and all of it like new."""
    counts = WorkerCounts(tmp_path)
    staying = await hand_out(lambda: snapshot(5), tmp_path)
    told = snapshot(7)
    told.rows[0].in_flight = 3
    told.gauges.sums = {"penstock_ledger_rows_total": 2, "penstock_leases_held": 4}
    told.gauges.reasons = {"penstock_session_moves_total": {"load": 1}}
    told.workflows = [LabelRow("a", "w", outcomes={"ok": 6})]
    ending = await serve(tmp_path, "ending", msgspec.json.encode(told))

    async def page() -> list[str]:
        return (await asyncio.to_thread(counts.page, 2)).decode().splitlines()

    tokens = 'penstock_prompt_tokens_total{account="a",model="m"} 12.0'
    kept = [
        tokens,
        "penstock_ledger_rows_total 2.0",
        'penstock_session_moves_total{reason="load"} 1.0',
        'penstock_workflow_requests_total{account="a",outcome="ok",workflow="w"} 6.0',
    ]
    before = await page()
    assert {*kept, "penstock_workers 2.0", "penstock_leases_held 4.0"} <= set(before)
    assert 'penstock_in_flight{account="a",model="m"} 3.0' in before
    ending.close()
    await ending.wait_closed()
    (tmp_path / "ending.sock").unlink(missing_ok=True)
    for _ in range(2):
        after = await page()
        assert {*kept, "penstock_workers 1.0", "penstock_client_connections 5.0"} <= set(after)
        assert 'penstock_in_flight{account="a",model="m"} 0.0' in after
        assert not [line for line in after if line.startswith("penstock_leases_held")]
    staying.close()


async def test_counters_of_a_worker_that_hangs_stay_once(tmp_path: Path) -> None:
    counts = WorkerCounts(tmp_path)
    answers = [msgspec.json.encode(snapshot(7)), b"", msgspec.json.encode(snapshot(8))]

    async def tell(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answers.pop(0))
        writer.close()

    server = await asyncio.start_unix_server(tell, tmp_path / "1.sock")
    for tokens, workers in ((7, 1), (7, 0), (8, 1)):
        page = (await asyncio.to_thread(counts.page, 1)).decode()
        assert f'penstock_prompt_tokens_total{{account="a",model="m"}} {tokens}.0' in page
        assert f"penstock_workers {workers}.0" in page
    server.close()


def test_folder_without_workers_has_no_numbers(tmp_path: Path) -> None:
    assert collected(tmp_path) == []


async def test_page_adds_up_the_workers(tmp_path: Path) -> None:
    server = await hand_out(lambda: snapshot(7), tmp_path)
    page = MetricsServer("127.0.0.1", 0, tmp_path, workers=2)
    page.start()

    def ask(path: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=30)
        connection.request("GET", path)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text

    try:
        status, text = await asyncio.to_thread(ask, "/metrics")
        assert status == 200
        assert 'penstock_prompt_tokens_total{account="a",model="m"} 7.0' in text
        assert "penstock_workers 1.0" in text
        assert "penstock_workers_wanted 2.0" in text
        assert (await asyncio.to_thread(ask, "/"))[0] == 404
    finally:
        await asyncio.to_thread(page.stop)
        server.close()
