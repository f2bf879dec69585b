"""Many workers share one balance: they reserve, settle, give back, lose answers, crash and drain.

Postgres is played by two tables of sums. Use never exceeds its estimate, so the limit must hold at
every moment: for what is charged, and for what is truly reserved and used.
"""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.admission.limit_samples import NOW, a_demand, a_limit

from penstock.admission.counted_limit import CountedLimit
from penstock.admission.division import divide, lacking
from penstock.admission.hold import Hold
from penstock.admission.window_balance import Reading, WindowBalance
from penstock.admission.window_balances import WindowBalances

RETURN_SECONDS = 1.0
WORKERS = st.integers(min_value=0, max_value=3)
ACTION = st.one_of(
    st.tuples(st.just("ask"), WORKERS, st.lists(st.integers(0, 60), min_size=1, max_size=4)),
    st.tuples(st.just("ask_and_hear_nothing"), WORKERS, st.booleans()),
    st.tuples(st.just("settle"), WORKERS, st.integers(0, 100)),
    st.tuples(st.just("give_back"), WORKERS, st.booleans()),
    st.tuples(st.just("book"), WORKERS, st.none()),
    st.tuples(st.just("forget"), WORKERS, st.none()),
    st.tuples(st.just("sweep"), WORKERS, st.none()),
    st.tuples(st.just("crash"), WORKERS, st.booleans()),
    st.tuples(st.just("drain_the_dead"), WORKERS, st.none()),
)


class Postgres:
    """The tables `leases` and `limit_spend`, for one balance."""

    def __init__(self, amount: int) -> None:
        self.amount = amount
        self.granted: dict[int, int] = {}
        self.spent: dict[int, int] = {}

    def charged(self) -> int:
        holders = self.granted.keys() | self.spent.keys()
        return sum(max(self.granted.get(h, 0), self.spent.get(h, 0)) for h in holders)

    def read(self, holder: int) -> Reading:
        own = self.granted.get(holder, 0), self.spent.get(holder, 0)
        return Reading(self.amount, 0, self.charged(), sum(self.spent.values()), *own)


class Worker:
    """One process: its balances, its requests that run, and its journal."""

    def __init__(self, holder: int) -> None:
        self.holder = holder
        self.balances = WindowBalances()
        self.counted = CountedLimit(LIMIT, "")
        self.running: list[tuple[Hold, int]] = []
        self.used = 0

    @property
    def balance(self) -> WindowBalance:
        return self.balances.find(self.counted, NOW)


LIMIT = a_limit()


class Cell:
    """All workers, those that died, and the actions of the test by name."""

    def __init__(self, amount: int) -> None:
        self.postgres = Postgres(amount)
        self.workers = [Worker(number) for number in range(4)]
        self.dead: list[Worker] = []
        self.holders = 4
        self.now = 0.0

    def ask(self, worker: Worker, amounts: list[int]) -> None:
        balance = worker.balance
        demands = [a_demand((balance, amount)) for amount in amounts]
        worker.balances.open(demands[0].amounts)
        asked = lacking(demands)
        reading = self.postgres.read(worker.holder)
        division = divide(demands, asked, {balance.key: reading} if asked else {})
        assert not division.again
        for _, granted in division.grants:
            self.postgres.granted[worker.holder] = granted
            balance.take_grant(granted, self.now)
        free = self.postgres.amount - self.postgres.charged()
        for demand, _ in division.refused:
            assert free < demand.amounts[0].amount, "refused though Postgres had enough"
        for demand in division.accepted:
            worker.running.append((Hold(demand.amounts), demand.amounts[0].amount))
        worker.balances.close(demands[0].amounts)

    def ask_and_hear_nothing(self, worker: Worker, is_committed: bool) -> None:
        balance = worker.balance
        demand = a_demand((balance, 10))
        worker.balances.open(demand.amounts)
        asked = lacking([demand])
        reading = self.postgres.read(worker.holder)
        division = divide([demand], asked, {balance.key: reading} if asked else {})
        for accepted in division.accepted:
            accepted.release()
        for _, granted in division.grants:
            balance.recorded = granted
            if is_committed:
                self.postgres.granted[worker.holder] = granted
        worker.balances.close(demand.amounts)

    def settle(self, worker: Worker, percent: int) -> None:
        if worker.running:
            hold, amount = worker.running.pop(0)
            used = amount * percent // 100
            hold.settle(requests=1, tokens=used, nanousd=0)
            worker.used += used

    def give_back(self, worker: Worker, is_committed: bool) -> None:
        for balance, granted in worker.balances.due(self.now, RETURN_SECONDS, 1000):
            if is_committed:
                self.postgres.granted[worker.holder] = granted
                balance.recorded = granted

    def book(self, worker: Worker, _: None = None) -> None:
        self.postgres.spent[worker.holder] = worker.used

    def forget(self, worker: Worker, _: None) -> None:
        worker.balances.forget_unused(0)

    def sweep(self, worker: Worker, _: None) -> None:
        before = self.postgres.charged()
        if self.postgres.granted.get(worker.holder, 0) <= self.postgres.spent.get(worker.holder, 0):
            self.postgres.granted.pop(worker.holder, None)
        assert self.postgres.charged() == before

    def crash(self, worker: Worker, is_served: bool) -> None:
        """Its requests end with it; the engine may have made all that was asked, or nothing."""
        worker.used += sum(amount for _, amount in worker.running) if is_served else 0
        worker.running = []
        self.dead.append(worker)
        self.holders += 1
        self.workers[self.workers.index(worker)] = Worker(self.holders)

    def drain_the_dead(self, _worker: Worker, _: None) -> None:
        for worker in self.dead:
            self.book(worker)
            self.postgres.granted.pop(worker.holder, None)

    def truly_held(self) -> int:
        everybody = [*self.workers, *{worker.holder: worker for worker in self.dead}.values()]
        running = sum(amount for each in everybody for _, amount in each.running)
        return running + sum(each.used for each in everybody)


@settings(max_examples=300)
@given(st.integers(0, 400), st.lists(ACTION, max_size=60))
def test_the_limit_holds_whatever_the_workers_do(
    amount: int, actions: list[tuple[str, int, object]]
) -> None:
    cell = Cell(amount)
    for name, number, argument in actions:
        cell.now += 0.7
        getattr(cell, name)(cell.workers[number], argument)
        assert cell.postgres.charged() <= amount
        assert cell.truly_held() <= amount


@settings(max_examples=50)
@given(st.integers(50, 400), st.lists(ACTION, max_size=40))
def test_when_all_is_over_nothing_stays_held(
    amount: int, actions: list[tuple[str, int, object]]
) -> None:
    cell = Cell(amount)
    for name, number, argument in actions:
        cell.now += 0.7
        getattr(cell, name)(cell.workers[number], argument)
    cell.drain_the_dead(cell.workers[0], None)
    for worker in cell.workers:
        while worker.running:
            cell.settle(worker, 50)
        for _ in range(3):
            cell.now += RETURN_SECONDS
            cell.give_back(worker, True)
        cell.book(worker)
    assert cell.postgres.charged() == cell.truly_held()
