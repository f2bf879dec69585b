"""Does a request cost two workers more CPU than one? Measured in turns in one run.

`python benchmarks/soak_workers.py [--rounds 9] [--seconds 2]` prints a table, and last one line of
JSON: CPU of the whole process tree with two workers as a ratio to one, for a small request and for
a streamed chunk; once with the same load, once with the same load for each worker, as fewer events
a wake-up cost more each. Median and quartiles; judges nothing. Needs gcc, nginx and two cores.

nginx with one and two workers, and vllm-router with one and two threads, are the control: on two
cores the second worker shares its own with the load, the upstream and Postgres. What it costs them,
who tell each other little or nothing, is the machine's part of our ratio.
"""

import argparse
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median, quantiles

import msgspec

from candidates import Candidate, start_upstream, stop_process
from compiled_package import cache_folder
from native_programs import build
from peers import start_nginx, start_vllm_router
from scenarios import CHUNK, SMALL, Scenario, run_once
from soak_gateway import SoakGateway

_WARM_UP_SECONDS = 2.0


class Pair(msgspec.Struct, frozen=True):
    """One program twice: with one worker, and with two."""

    name: str
    one: Candidate
    two: Candidate


class Ratio(msgspec.Struct, frozen=True):
    """Over the rounds: two workers beside one."""

    low: float
    median: float
    high: float
    one_us: float
    two_us: float


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU of two workers beside one.")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-soak-"))
        programs = Path(folder)
        build(programs)
        upstream, ports = start_upstream(programs / "upstream")
        stack.callback(stop_process, upstream)
        _measure(_start(ports, stack), programs / "loadgen", options)


def _start(ports: list[int], stack: ExitStack) -> list[Pair]:
    """All of them; `stack` ends them."""
    pairs = []
    for name in ("penstock", "nginx", "vllm-router"):
        one, two = (_start_one(name, ports, workers, stack) for workers in (1, 2))
        pairs.append(Pair(name, one, two))
    return pairs


def _start_one(name: str, ports: list[int], workers: int, stack: ExitStack) -> Candidate:
    if name == "penstock":
        gateway = SoakGateway(ports, workers=workers)
        stack.callback(gateway.stop)
        return gateway.candidate()
    if name == "nginx":
        peer = start_nginx(ports, workers)
    else:
        peer = start_vllm_router(ports, cache_folder(), workers=workers)
    stack.callback(peer.stop)
    return peer


def _measure(pairs: Sequence[Pair], loadgen: Path, options: argparse.Namespace) -> None:
    result: dict[str, dict[str, Ratio]] = {pair.name: {} for pair in pairs}
    for scenario in (SMALL, CHUNK):
        ways = {}
        for pair in pairs:
            ways[pair.name, "one"] = (pair.one, scenario)
            ways[pair.name, "half"] = (pair.one, _halved(scenario))
            ways[pair.name, "two"] = (pair.two, scenario)
        _round(ways, loadgen, _WARM_UP_SECONDS)
        rounds = []
        for number in range(options.rounds):
            # Who is first changes, so that a neighbour's minute does not always hit the same.
            turned = dict(reversed(ways.items())) if number % 2 else ways
            costs = _round(turned, loadgen, options.seconds)
            rounds.append(costs)
            told = ", ".join(f"{name} {way} {costs[name, way]:.1f} us" for name, way in ways)
            print(f"{scenario.name}, round {number + 1}: {told}", flush=True)
        for name, ratios in result.items():
            ratios[f"{scenario.name}_same_load"] = _ratio(rounds, name, "one")
            ratios[f"{scenario.name}_same_load_per_worker"] = _ratio(rounds, name, "half")
    print("\n".join(_table(result)))
    # Ours as they always were; the peers' beside them.
    ours = result.pop("penstock")
    print(msgspec.json.encode({"rounds": options.rounds, **ours, "peers": result}).decode())


def _halved(scenario: Scenario) -> Scenario:
    """With half as many connections."""
    arguments = list(scenario.arguments)
    at = arguments.index("-c") + 1
    arguments[at] = str(int(arguments[at]) // 2)
    return msgspec.structs.replace(scenario, arguments=arguments)


def _round(
    ways: dict[tuple[str, str], tuple[Candidate, Scenario]], loadgen: Path, seconds: float
) -> dict[tuple[str, str], float]:
    """CPU in each way, right after each other."""
    return {
        way: run_once(scenario, candidate, loadgen, seconds).cpu
        for way, (candidate, scenario) in ways.items()
    }


def _ratio(rounds: list[dict[tuple[str, str], float]], name: str, beside: str) -> Ratio:
    ratios = [costs[name, "two"] / costs[name, beside] for costs in rounds]
    low, middle, high = quantiles(ratios, n=4, method="inclusive")
    return Ratio(
        low=round(low, 3),
        median=round(middle, 3),
        high=round(high, 3),
        one_us=round(median(costs[name, beside] for costs in rounds), 1),
        two_us=round(median(costs[name, "two"] for costs in rounds), 1),
    )


def _table(result: dict[str, dict[str, Ratio]]) -> list[str]:
    """A row for each program, as docs/measurements.md has them."""
    columns = list(next(iter(result.values())))
    rows = [f"| | {' | '.join(columns)} |", f"|---|{'--:|' * len(columns)}"]
    for name, ratios in result.items():
        cells = [
            f"{each.median:.2f} ({each.low:.2f} to {each.high:.2f})" for each in ratios.values()
        ]
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return rows


if __name__ == "__main__":
    main()
