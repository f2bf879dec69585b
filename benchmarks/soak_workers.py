"""Does a request cost two workers more CPU than one? Measured in turns in one run.

`python benchmarks/soak_workers.py [--starts 3] [--rounds 3] [--seconds 2]` prints a table, and last
one line of JSON: CPU of the whole process tree with two workers as a ratio, for a small request and
for a streamed chunk. Median and quartiles; judges nothing. Needs gcc, nginx and two cores.

The ratio is to one worker with the same load; to one with half of it, which is the same load for
each worker, as fewer events a wake-up cost more each; and to two gateways of one worker that know
nothing of each other, each with half of the load at the same time. That last one is what it costs
to be two workers of one gateway: on two cores all else that a second one costs is the machine's,
for it shares its core with the load, the upstream and Postgres, and its caches with the first.
nginx with one and two workers, and vllm-router with one and two threads, are beside it.

Everything is started anew several times: a process is not like another (overhead.py).
"""

import argparse
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import msgspec

from candidates import Candidate, start_upstream, stop_process
from compiled_package import cache_folder
from figures import Spread, spread
from native_programs import build
from needs import COMPILED, LOAD, require
from peers import start_nginx, start_vllm_router
from scenarios import CHUNK, SMALL, Scenario, run_once
from soak_gateway import SoakGateway

_WARM_UP_SECONDS = 2.0
_OURS = "penstock"
# What two workers are compared with.
_SAME, _HALF, _APART = "same_load", "same_load_per_worker", "two_gateways"
_TWO = "two"

# CPU of one round, by program and way.
Costs = dict[tuple[str, str], float]


class Program(msgspec.Struct, frozen=True):
    """The same with one worker, and with two; and once more with one, if there is an `other`."""

    name: str
    one: Candidate
    two: Candidate
    other: Candidate | None = None


class Load(msgspec.Struct, frozen=True):
    """Who is sent what."""

    candidate: Candidate
    scenario: Scenario


class Ratio(Spread, frozen=True):
    """Over the rounds: two workers beside something else."""

    beside_us: float
    two_us: float


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU of two workers beside one.")
    parser.add_argument("--starts", type=int, default=3, help="of every program, anew")
    parser.add_argument("--rounds", type=int, default=3, help="after each start")
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args()
    require({*LOAD, *COMPILED, "nginx"})
    rounds: dict[str, list[Costs]] = {SMALL.name: [], CHUNK.name: []}
    with tempfile.TemporaryDirectory(prefix="penstock-soak-") as folder:
        programs = Path(folder)
        build(programs)
        for number in range(options.starts):
            print(f"start {number + 1} of {options.starts}", flush=True)
            with ExitStack() as stack:
                upstream, ports = start_upstream(programs / "upstream")
                stack.callback(stop_process, upstream)
                started = _start(ports, stack)
                for scenario in (SMALL, CHUNK):
                    rounds[scenario.name] += _play(started, scenario, programs / "loadgen", options)
    _report(rounds, options)


def _start(ports: list[int], stack: ExitStack) -> list[Program]:
    """All of them; `stack` ends them."""
    programs = []
    for name in (_OURS, "nginx", "vllm-router"):
        one, two = (_start_one(name, ports, workers, stack) for workers in (1, 2))
        other = _start_one(name, ports, 1, stack) if name == _OURS else None
        programs.append(Program(name, one, two, other))
    return programs


def _start_one(name: str, ports: list[int], workers: int, stack: ExitStack) -> Candidate:
    if name == _OURS:
        gateway = SoakGateway(ports, workers=workers)
        stack.callback(gateway.stop)
        return gateway.candidate()
    if name == "nginx":
        peer = start_nginx(ports, workers)
    else:
        peer = start_vllm_router(ports, cache_folder(), workers=workers)
    stack.callback(peer.stop)
    return peer


def _play(
    started: Sequence[Program], scenario: Scenario, loadgen: Path, options: argparse.Namespace
) -> list[Costs]:
    """The rounds after one start."""
    half = _halved(scenario)
    ways: dict[tuple[str, str], list[Load]] = {}
    for each in started:
        ways[each.name, _SAME] = [Load(each.one, scenario)]
        ways[each.name, _HALF] = [Load(each.one, half)]
        ways[each.name, _TWO] = [Load(each.two, scenario)]
        if each.other is not None:
            ways[each.name, _APART] = [Load(each.one, half), Load(each.other, half)]
    for loads in ways.values():
        _cost(loads, loadgen, _WARM_UP_SECONDS)
    rounds = []
    for number in range(options.rounds):
        # Who is first changes, so that a neighbour's minute does not always hit the same.
        turned = reversed(ways.items()) if number % 2 else ways.items()
        costs = {way: _cost(loads, loadgen, options.seconds) for way, loads in turned}
        rounds.append(costs)
        told = ", ".join(f"{name} {way} {costs[name, way]:.1f} us" for name, way in ways)
        print(f"{scenario.name}, round {number + 1}: {told}", flush=True)
    return rounds


def _cost(loads: Sequence[Load], loadgen: Path, seconds: float) -> float:
    """CPU per request or chunk of all who are loaded at the same time."""
    with ThreadPoolExecutor(len(loads)) as pool:
        costs = list(
            pool.map(lambda load: run_once(load.scenario, load.candidate, loadgen, seconds), loads)
        )
    return sum(cost.cpu * cost.rate for cost in costs) / sum(cost.rate for cost in costs)


def _halved(scenario: Scenario) -> Scenario:
    """With half as many connections."""
    arguments = list(scenario.arguments)
    at = arguments.index("-c") + 1
    arguments[at] = str(int(arguments[at]) // 2)
    return msgspec.structs.replace(scenario, arguments=arguments)


def _report(rounds: dict[str, list[Costs]], options: argparse.Namespace) -> None:
    result: dict[str, dict[str, Ratio]] = {}
    for scenario, costs in rounds.items():
        for name, beside in costs[0]:
            if beside != _TWO:
                ratios = result.setdefault(name, {})
                ratios[f"{scenario}_{beside}"] = _ratio(costs, name, beside)
    print("\n".join(_table(result)))
    # Ours as they always were; the peers' beside them.
    ours = result.pop(_OURS)
    how = {"starts": options.starts, "rounds": options.rounds}
    print(msgspec.json.encode({**how, **ours, "peers": result}).decode())


def _ratio(rounds: list[Costs], name: str, beside: str) -> Ratio:
    ratios = spread([costs[name, _TWO] / costs[name, beside] for costs in rounds])
    return Ratio(
        low=round(ratios.low, 3),
        median=round(ratios.median, 3),
        high=round(ratios.high, 3),
        beside_us=round(median(costs[name, beside] for costs in rounds), 1),
        two_us=round(median(costs[name, _TWO] for costs in rounds), 1),
    )


def _table(result: dict[str, dict[str, Ratio]]) -> list[str]:
    """A row for each program, as docs/measurements.md has them."""
    columns = list(result[_OURS])
    rows = [f"| | {' | '.join(columns)} |", f"|---|{'--:|' * len(columns)}"]
    for name, ratios in result.items():
        cells = [ratios[column].shown(2) if column in ratios else "-" for column in columns]
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return rows


if __name__ == "__main__":
    main()
