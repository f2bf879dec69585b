"""The pool against a real Postgres: transactions, limits, and a server that goes or hangs."""

import asyncio
import os
import signal
import socket
import time

import psycopg
import pytest
import uvloop

from penstock import errors
from penstock.store import Store, StoreSettings, Transaction
from penstock.store.embedded import EmbeddedPostgres


async def _count_accounts(store: Store) -> int:
    async with store.transaction() as transaction:
        row = await transaction.fetch_one("select count(*) from accounts")
    assert row is not None
    return int(row[0])


async def _insert(store: Store, account: str) -> int:
    async with store.transaction() as transaction:
        return await transaction.execute(
            "insert into accounts (id, name, revision) values (%s, 'a', 1)", (account,)
        )


async def _wait_until_it_answers(store: Store) -> None:
    while True:
        try:
            await _count_accounts(store)
        except errors.StoreUnavailable:
            continue
        return


async def _stop_backend(transaction: Transaction) -> int:
    row = await transaction.fetch_one("select pg_backend_pid()")
    assert row is not None
    os.kill(row[0], signal.SIGSTOP)
    return int(row[0])


async def test_a_transaction_commits_at_the_end_of_its_block(store: Store) -> None:
    assert await _insert(store, "one") == 1
    assert await _count_accounts(store) == 1


async def test_a_transaction_is_rolled_back_on_an_error(store: Store) -> None:
    async def insert_and_fail() -> None:
        async with store.transaction() as transaction:
            await transaction.execute(
                "insert into accounts (id, name, revision) values ('one', 'a', 1)"
            )
            raise errors.NotFound

    with pytest.raises(errors.NotFound):
        await insert_and_fail()
    assert await _count_accounts(store) == 0


async def test_a_statement_by_itself_is_committed_at_once(store: Store) -> None:
    async with store.statement() as statement:
        await statement.execute("insert into accounts (id, name, revision) values ('one', 'a', 1)")
        assert await _count_accounts(store) == 1


async def test_rows_come_as_tuples(store: Store) -> None:
    async with store.transaction() as transaction:
        assert await transaction.fetch("select n, 'x' from generate_series(1, %s) n", (2,)) == [
            (1, "x"),
            (2, "x"),
        ]
        assert await transaction.fetch_one("select 1 where false") is None


async def test_a_mistake_in_a_statement_is_not_called_an_outage(store: Store) -> None:
    with pytest.raises(psycopg.errors.UndefinedTable):
        async with store.transaction() as transaction:
            await transaction.execute("select * from no_such_table")
    assert await _count_accounts(store) == 0


async def test_open_returns_at_once_and_use_fails_in_time_when_postgres_is_absent() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    store = Store(StoreSettings(dsn=f"postgresql://127.0.0.1:{port}/x", acquire_seconds=0.5))
    began = time.monotonic()
    await store.open()
    assert time.monotonic() - began < 0.3
    with pytest.raises(errors.StoreUnavailable):
        await _count_accounts(store)
    assert time.monotonic() - began < 2.0
    await store.close()


async def test_a_statement_over_its_time_is_cut(dsn: str) -> None:
    store = Store(StoreSettings(dsn=dsn, statement_seconds=0.2))
    await store.open()
    with pytest.raises(errors.StoreUnavailable):
        async with store.transaction() as transaction:
            await transaction.execute("select pg_sleep(30)")
    assert await _count_accounts(store) == 0
    await store.close()


async def test_a_transaction_on_a_server_that_hangs_ends_in_time(dsn: str) -> None:
    store = Store(StoreSettings(dsn=dsn, transaction_seconds=0.5))
    await store.open()
    stopped: list[int] = []

    async def stop_the_server_and_ask() -> None:
        async with store.transaction() as transaction:
            stopped.append(await _stop_backend(transaction))
            await transaction.execute("select 1")

    began = time.monotonic()
    try:
        with pytest.raises(errors.StoreUnavailable):
            await stop_the_server_and_ask()
        assert time.monotonic() - began < 3.0
        assert await _count_accounts(store) == 0
    finally:
        os.kill(stopped[0], signal.SIGCONT)
    await store.close()


async def test_a_hanging_idle_connection_is_replaced(dsn: str) -> None:
    store = Store(StoreSettings(dsn=dsn, acquire_seconds=0.5))
    await store.open()
    async with store.transaction() as transaction:
        row = await transaction.fetch_one("select pg_backend_pid()")
    assert row is not None
    os.kill(row[0], signal.SIGSTOP)
    # One that answered just now would be used without asking.
    await asyncio.sleep(0.6)
    try:
        async with asyncio.timeout(3):
            await _wait_until_it_answers(store)
    finally:
        os.kill(row[0], signal.SIGCONT)
    await store.close()


async def test_a_connection_that_closes_just_after_its_answer_is_replaced(dsn: str) -> None:
    store, other = Store(StoreSettings(dsn=dsn)), Store(StoreSettings(dsn=dsn))
    await store.open()
    await other.open()
    for _ in range(5):
        async with store.statement() as statement:
            row = await statement.fetch_one("select pg_backend_pid()")
        assert row is not None
        async with other.statement() as statement:
            await statement.execute("select pg_terminate_backend(%s, 1000)", row)
        assert await _count_accounts(store) == 0
    await store.close()
    await other.close()


async def test_no_more_may_wait_for_a_connection_than_the_limit(dsn: str) -> None:
    store = Store(StoreSettings(dsn=dsn, pool_size_max=1, pool_waiting_max=2, acquire_seconds=5))
    await store.open()
    release = asyncio.Event()
    is_held = asyncio.Event()

    async def hold() -> None:
        async with store.transaction():
            is_held.set()
            await release.wait()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(hold())
        await is_held.wait()
        waiting = [tasks.create_task(_count_accounts(store)) for _ in range(2)]
        await asyncio.sleep(0.1)
        with pytest.raises(errors.StoreUnavailable):
            await _count_accounts(store)
        release.set()
    assert [each.result() for each in waiting] == [0, 0]
    await store.close()


async def test_the_pool_comes_back_by_itself_after_a_restart(
    own_postgres: EmbeddedPostgres,
) -> None:
    store = Store(StoreSettings(dsn=own_postgres.start(), acquire_seconds=0.5))
    await store.open()
    async with store.transaction() as transaction:
        await transaction.execute("create table accounts (id text)")
    own_postgres.stop()
    with pytest.raises(errors.StoreUnavailable):
        await _count_accounts(store)
    own_postgres.start()
    async with asyncio.timeout(5):
        await _wait_until_it_answers(store)
    await store.close()


async def test_a_server_that_stops_in_mid_transaction_is_unavailable(
    own_postgres: EmbeddedPostgres,
) -> None:
    store = Store(StoreSettings(dsn=own_postgres.start()))
    await store.open()

    async def outlive_the_server() -> None:
        async with store.transaction() as transaction:
            await transaction.execute("create table t (id text)")
            own_postgres.stop()
            await transaction.execute("select 1")

    with pytest.raises(errors.StoreUnavailable):
        await outlive_the_server()
    await store.close()


async def test_a_cancelled_transaction_leaves_the_pool_whole(dsn: str) -> None:
    store = Store(StoreSettings(dsn=dsn, pool_size_max=1))
    await store.open()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2), store.transaction() as transaction:
            await transaction.execute("select pg_sleep(30)")
    assert await _count_accounts(store) == 0
    await store.close()


async def test_a_closed_store_can_be_closed_again(dsn: str) -> None:
    store = Store(StoreSettings(dsn=dsn))
    await store.open()
    await store.close()
    await store.close()
    with pytest.raises(AssertionError):
        await _count_accounts(store)


def test_the_store_works_on_the_gateways_event_loop(dsn: str) -> None:
    async def use() -> int:
        store = Store(StoreSettings(dsn=dsn))
        await store.open()
        await _insert(store, "one")
        counted = await _count_accounts(store)
        await store.close()
        return counted

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(use()) == 1


async def test_no_cancel_is_lost_while_waiting_for_a_connection(dsn: str) -> None:
    """Without care 1 in 8 was: the pool's own wait drops one that comes with its result."""
    store = Store(StoreSettings(dsn=dsn, pool_size_max=1))
    await store.open()
    await _count_accounts(store)

    async def loop_for_ever() -> None:
        while True:
            await _count_accounts(store)

    for turn in range(150):
        tasks = [asyncio.get_running_loop().create_task(loop_for_ever()) for _ in range(2)]
        await asyncio.sleep(0.002 + turn % 7 * 0.0005)
        for task in tasks:
            task.cancel()
        _, running = await asyncio.wait(tasks, timeout=5)
        assert not running
    await store.close()
