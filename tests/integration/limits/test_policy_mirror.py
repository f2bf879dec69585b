"""A gateway's mirror of the keys against a real Postgres: fresh, bounded, safe from races."""

import asyncio
import hashlib
import hmac
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from penstock import errors
from penstock.clock import SystemClock
from penstock.policy import AccountBook, KeyBook, KeyMirror, PolicySettings
from penstock.policy.revision import next_revision
from penstock.records.account import Account, Key, Role
from penstock.store import Store, StoreSettings, Transaction

QUICK = PolicySettings(refresh_seconds=0.05, miss_refresh_seconds=0.02)
SLOW = PolicySettings(refresh_seconds=4, miss_refresh_seconds=0.05)


class CountingStore(Store):
    """Counts how often it is asked whether anything has changed."""

    statements = 0

    @asynccontextmanager
    async def statement(self, *, prepare: bool | None = None) -> AsyncIterator[Transaction]:
        self.statements += 1
        async with super().statement(prepare=prepare) as statement:
            yield statement


class StuckStore(Store):
    """Never answers."""

    def __init__(self, settings: StoreSettings) -> None:
        super().__init__(settings)
        self.is_asked = asyncio.Event()

    @asynccontextmanager
    async def statement(self, *, prepare: bool | None = None) -> AsyncIterator[Transaction]:
        self.is_asked.set()
        await asyncio.Event().wait()
        async with super().statement(prepare=prepare) as statement:
            yield statement


@asynccontextmanager
async def _running(store: Store, settings: PolicySettings) -> AsyncIterator[KeyMirror]:
    mirror = KeyMirror(store, SystemClock(), settings)
    await mirror.load()
    async with asyncio.TaskGroup() as tasks:
        loop = tasks.create_task(mirror.run())
        yield mirror
        loop.cancel()


async def _eventually(is_so: Callable[[], bool], seconds: float = 5.0) -> None:
    async with asyncio.timeout(seconds):
        while True:
            if is_so():
                return
            await asyncio.sleep(0.01)


async def _runtime_key(store: Store) -> tuple[Account, Key, bytes]:
    account = await AccountBook(store).create("Team A")
    key, secret = await KeyBook(store).create(Role.RUNTIME, account.id, "ci")
    return account, key, secret.encode()


async def test_keys_that_are_there_at_the_start_are_known(store: Store) -> None:
    _, key, secret = await _runtime_key(store)
    operator, operator_secret = await KeyBook(store).create(Role.OPERATOR, None, "op")
    async with _running(store, SLOW) as mirror:
        assert mirror.find(secret) == key
        assert mirror.find(operator_secret.encode()) == operator
        assert mirror.find(b"psk_unknown") is None
        assert await mirror.look_up(secret) == key
        assert mirror.age_seconds < 5


async def test_a_revocation_is_seen_within_5_s_with_the_default_settings(store: Store) -> None:
    account, key, secret = await _runtime_key(store)
    async with _running(store, PolicySettings()) as mirror:
        assert mirror.find(secret) == key
        await KeyBook(store).revoke(key.id)
        await _eventually(lambda: mirror.find(secret) is None)
        with pytest.raises(errors.Unauthenticated):
            await mirror.look_up(secret)
        other, secret_2 = await KeyBook(store).create(Role.RUNTIME, account.id, "other")
        await AccountBook(store).set_blocked(account.id, True)
        blocked = Key(
            other.id, Role.RUNTIME, Account(account.id, "Team A", is_blocked=True), "other"
        )
        await _eventually(lambda: mirror.find(secret_2.encode()) == blocked)


async def test_a_blocked_account_is_seen_through_a_key_that_was_known(store: Store) -> None:
    account, _, secret = await _runtime_key(store)
    async with _running(store, QUICK) as mirror:

        def is_blocked() -> bool:
            key = mirror.find(secret)
            return key is not None and key.account is not None and key.account.is_blocked

        assert not is_blocked()
        await AccountBook(store).set_blocked(account.id, True)
        await _eventually(is_blocked)
        await AccountBook(store).set_blocked(account.id, False)
        await _eventually(lambda: not is_blocked())


async def test_a_key_made_just_now_is_found_by_looking_it_up(store: Store) -> None:
    async with _running(store, SLOW) as mirror:
        for _ in range(5):
            _, key, secret = await _runtime_key(store)
            assert mirror.find(secret) is None
            began = time.monotonic()
            assert await mirror.look_up(secret) == key
            assert time.monotonic() - began < 1.0


async def test_an_unknown_key_is_unauthenticated(store: Store) -> None:
    async with _running(store, SLOW) as mirror:
        with pytest.raises(errors.Unauthenticated):
            await mirror.look_up(b"psk_unknown")
        with pytest.raises(errors.Unauthenticated):
            await mirror.look_up(b"")


async def test_a_key_revoked_before_the_start_is_unauthenticated_without_asking(
    store: Store,
) -> None:
    _, key, secret = await _runtime_key(store)
    await KeyBook(store).revoke(key.id)
    mirror = KeyMirror(store, SystemClock(), SLOW)
    await mirror.load()
    # Nothing runs that could ask: the answer is known.
    with pytest.raises(errors.Unauthenticated):
        await mirror.look_up(secret)


async def test_many_unknown_keys_share_a_few_refreshes(dsn: str) -> None:
    counting = CountingStore(StoreSettings(dsn=dsn))
    await counting.open()
    async with _running(counting, SLOW) as mirror:
        before = counting.statements
        answers = await asyncio.gather(
            *(mirror.look_up(b"psk_%d" % number) for number in range(500)), return_exceptions=True
        )
        assert {type(answer) for answer in answers} == {errors.Unauthenticated}
        assert counting.statements - before == 1
        began = time.monotonic()
        for number in range(10):
            with pytest.raises(errors.Unauthenticated):
                await mirror.look_up(b"psk_%d" % number)
        elapsed = time.monotonic() - began
        assert counting.statements - before <= 2 + elapsed / SLOW.miss_refresh_seconds
    await counting.close()


async def test_more_unknown_keys_than_may_wait_are_told_to_come_back(store: Store) -> None:
    settings = PolicySettings(refresh_seconds=4, miss_refresh_seconds=0.5, miss_waiting_max=3)
    async with _running(store, settings) as mirror:
        with pytest.raises(errors.Unauthenticated):
            await mirror.look_up(b"psk_first")
        answers = await asyncio.gather(
            *(mirror.look_up(b"psk_%d" % number) for number in range(5)), return_exceptions=True
        )
    assert [type(answer) for answer in answers] == [errors.Unauthenticated] * 3 + [
        errors.StoreUnavailable
    ] * 2


async def test_a_client_that_leaves_while_it_waits_disturbs_nobody(store: Store) -> None:
    async with _running(store, SLOW) as mirror:
        with pytest.raises(errors.Unauthenticated):
            await mirror.look_up(b"psk_first")
        _, key, secret = await _runtime_key(store)
        async with asyncio.TaskGroup() as tasks:
            leaves = tasks.create_task(mirror.look_up(b"psk_leaves"))
            stays = tasks.create_task(mirror.look_up(secret))
            await asyncio.sleep(0)
            leaves.cancel()
        assert stays.result() == key


async def test_waiting_ends_in_time_when_nothing_refreshes(store: Store) -> None:
    mirror = KeyMirror(store, SystemClock(), PolicySettings(miss_wait_seconds=0.1))
    await mirror.load()
    with pytest.raises(errors.StoreUnavailable):
        await mirror.look_up(b"psk_unknown")


async def test_those_who_wait_are_answered_when_the_mirror_is_stopped(dsn: str) -> None:
    stuck = StuckStore(StoreSettings(dsn=dsn))
    mirror = KeyMirror(
        stuck, SystemClock(), PolicySettings(refresh_seconds=4, miss_wait_seconds=30)
    )
    async with asyncio.TaskGroup() as tasks:
        loop = tasks.create_task(mirror.run())
        waiting = tasks.create_task(_outcome(mirror, b"psk_unknown"))
        await stuck.is_asked.wait()
        loop.cancel()
    assert waiting.result() is errors.StoreUnavailable


async def test_a_mirror_refuses_to_start_with_more_than_it_may_hold(store: Store) -> None:
    for _ in range(3):
        await _runtime_key(store)
    for settings in (PolicySettings(keys_max=2), PolicySettings(accounts_max=2)):
        with pytest.raises(errors.Overloaded, match=r"policy\.keys_max"):
            await KeyMirror(store, SystemClock(), settings).load()
    await KeyMirror(store, SystemClock(), PolicySettings(keys_max=3, accounts_max=3)).load()


async def test_a_mirror_that_becomes_full_never_says_that_a_key_is_wrong(store: Store) -> None:
    _, key, secret = await _runtime_key(store)
    async with _running(store, PolicySettings(keys_max=1, refresh_seconds=0.05)) as mirror:
        _, _, secret_2 = await _runtime_key(store)
        with pytest.raises(errors.Overloaded):
            await mirror.look_up(secret_2)
        assert mirror.find(secret) == key
        await KeyBook(store).revoke(key.id)
        await _eventually(lambda: mirror.find(secret) is None)


async def test_many_keys_are_loaded_in_pages(store: Store) -> None:
    account, _, _ = await _runtime_key(store)
    async with store.transaction() as transaction:
        revision = await next_revision(transaction)
        await transaction.execute(
            "insert into keys (id, account_id, role, name, secret_sha256, revision)"
            " select 'k' || n, %s, 'runtime', 'n', sha256(('s' || n)::bytea), %s"
            " from generate_series(1, 12000) n",
            (account.id, revision),
        )
        await transaction.execute(
            "insert into accounts (id, name, revision) select 'a' || n, 'n', %s"
            " from generate_series(1, 10000) n",
            (revision,),
        )
    mirror = KeyMirror(store, SystemClock(), PolicySettings())
    await mirror.load()
    assert all(mirror.find(b"s%d" % number) is not None for number in range(1, 12001))


async def test_a_broken_table_is_logged_and_known_keys_go_on(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    _, key, secret = await _runtime_key(store)
    async with _running(store, QUICK) as mirror:
        async with store.transaction() as transaction:
            await transaction.execute("alter table policy_revision rename to elsewhere")
        await _eventually(lambda: mirror.refresh_failures > 0)
        assert mirror.find(secret) == key
        with pytest.raises(errors.StoreUnavailable):
            await mirror.look_up(b"psk_unknown")
        async with store.transaction() as transaction:
            await transaction.execute("alter table elsewhere rename to policy_revision")
        await KeyBook(store).revoke(key.id)
        await _eventually(lambda: mirror.find(secret) is None)
    assert "keys not refreshed" in caplog.text
    assert secret.decode() not in caplog.text


async def test_a_database_put_back_to_an_earlier_state_is_read_anew(store: Store) -> None:
    _, key, secret = await _runtime_key(store)
    _, lost, secret_of_lost = await _runtime_key(store)
    async with _running(store, QUICK) as mirror:
        assert mirror.find(secret_of_lost) == lost
        async with store.transaction() as transaction:
            await transaction.execute("delete from keys where id = %s", (lost.id,))
            await transaction.execute("update policy_revision set revision = 2")
        await _eventually(lambda: mirror.find(secret_of_lost) is None)
        assert mirror.find(secret) == key


async def test_salts_are_the_cells_secret_over_the_account(store: Store) -> None:
    async with store.transaction() as transaction:
        row = await transaction.fetch_one("select secret from cell")
    assert row is not None
    mirror = KeyMirror(store, SystemClock(), PolicySettings(accounts_max=2))
    with pytest.raises(AssertionError):
        mirror.salt_for("a")
    await mirror.load()
    for account in ("a", "b", "c", "a", "a"):
        expected = hmac.new(row[0], account.encode(), hashlib.sha256).hexdigest()
        assert mirror.salt_for(account) == expected


@pytest.mark.parametrize("seed", range(4))
async def test_racing_writers_never_make_a_mirror_miss_a_change(dsn: str, seed: int) -> None:
    """Writers that are slow to commit; mirrors that look at any moment and only read deltas."""
    dice = random.Random(seed)
    writers = Store(StoreSettings(dsn=dsn, pool_size_max=16))
    readers = Store(StoreSettings(dsn=dsn, pool_size_max=4))
    await writers.open()
    await readers.open()
    accounts, keys = AccountBook(writers), KeyBook(writers)
    known: list[tuple[Key, bytes]] = []
    owners = [await accounts.create(f"Team {number}") for number in range(4)]

    async def write() -> None:
        for _ in range(12):
            action = dice.choice(["create", "create", "revoke", "block", "slow"])
            owner = dice.choice(owners)
            if action == "create":
                key, secret = await keys.create(Role.RUNTIME, owner.id, "k")
                known.append((key, secret.encode()))
            elif action == "revoke" and known:
                await keys.revoke(dice.choice(known)[0].id)
            elif action == "block":
                await accounts.set_blocked(owner.id, dice.random() < 0.5)
            else:
                await _block_slowly(writers, owner, dice)
            await asyncio.sleep(dice.random() * 0.01)

    settings = PolicySettings(refresh_seconds=0.05, miss_refresh_seconds=0.01)
    async with (
        _running(readers, settings) as one,
        _running(readers, settings) as two,
    ):
        async with asyncio.TaskGroup() as tasks:
            for _ in range(12):
                tasks.create_task(write())
        # The next refresh that begins now must have everything.
        for mirror in (one, two):
            with pytest.raises(errors.Unauthenticated):
                await mirror.look_up(b"psk_unknown")
        truth = {key.id: None if key.is_revoked else key for key in await keys.list()}
        assert len(known) > 20
        for mirror in (one, two):
            assert {key.id: mirror.find(secret) for key, secret in known} == truth
    await writers.close()
    await readers.close()


async def _block_slowly(store: Store, account: Account, dice: random.Random) -> None:
    """Take a revision early and commit late, as a writer on a slow network does."""
    async with store.transaction() as transaction:
        revision = await next_revision(transaction)
        await asyncio.sleep(dice.random() * 0.02)
        await transaction.execute(
            "update accounts set is_blocked = not is_blocked, revision = %s where id = %s",
            (revision, account.id),
        )
        await asyncio.sleep(dice.random() * 0.02)


async def _outcome(mirror: KeyMirror, secret: bytes) -> type[BaseException] | None:
    try:
        await mirror.look_up(secret)
    except errors.Error as error:
        return type(error)
    return None
