"""Does a request cost two workers more CPU than one? Two gateways, measured in turns in one run.

`python benchmarks/soak_workers.py [--rounds 9] [--seconds 2]` prints last one line of JSON: CPU of
the whole process tree with two workers as a ratio to one, for a small request and for a streamed
chunk; once with the same load, once with the same load for each worker, as fewer events a wake-up
cost more each. Median and quartiles; judges nothing. Needs gcc and two cores.
"""

import argparse
import tempfile
from pathlib import Path
from statistics import median, quantiles

import msgspec

from candidates import start_upstream, stop_process
from native_programs import build
from scenarios import CHUNK, SMALL, Scenario, run_once
from soak_gateway import SoakGateway

_WARM_UP_SECONDS = 2.0


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
    with tempfile.TemporaryDirectory(prefix="penstock-soak-") as folder:
        programs = Path(folder)
        build(programs)
        upstream, ports = start_upstream(programs / "upstream")
        try:
            one = SoakGateway(ports, workers=1)
            try:
                two = SoakGateway(ports, workers=2)
                try:
                    _measure(one, two, programs / "loadgen", options)
                finally:
                    two.stop()
            finally:
                one.stop()
        finally:
            stop_process(upstream)


def _measure(
    one: SoakGateway, two: SoakGateway, loadgen: Path, options: argparse.Namespace
) -> None:
    result: dict[str, Ratio] = {}
    for scenario in (SMALL, CHUNK):
        ways = {"one": (one, scenario), "half": (one, _halved(scenario)), "two": (two, scenario)}
        _round(ways, loadgen, _WARM_UP_SECONDS)
        rounds = []
        for number in range(options.rounds):
            # Who is first changes, so that a neighbour's minute does not always hit the same.
            turned = dict(reversed(ways.items())) if number % 2 else ways
            costs = _round(turned, loadgen, options.seconds)
            rounds.append(costs)
            told = ", ".join(f"{name} {costs[name]:.1f} us" for name in ways)
            print(f"{scenario.name}, round {number + 1}: {told}", flush=True)
        result[f"{scenario.name}_same_load"] = _ratio(rounds, "one")
        result[f"{scenario.name}_same_load_per_worker"] = _ratio(rounds, "half")
    print(msgspec.json.encode({"rounds": options.rounds, **result}).decode())


def _halved(scenario: Scenario) -> Scenario:
    """With half as many connections."""
    arguments = list(scenario.arguments)
    at = arguments.index("-c") + 1
    arguments[at] = str(int(arguments[at]) // 2)
    return msgspec.structs.replace(scenario, arguments=arguments)


def _round(
    ways: dict[str, tuple[SoakGateway, Scenario]], loadgen: Path, seconds: float
) -> dict[str, float]:
    """CPU in each way, right after each other."""
    return {
        name: run_once(scenario, gateway.candidate(), loadgen, seconds).cpu
        for name, (gateway, scenario) in ways.items()
    }


def _ratio(rounds: list[dict[str, float]], beside: str) -> Ratio:
    ratios = [costs["two"] / costs[beside] for costs in rounds]
    low, middle, high = quantiles(ratios, n=4, method="inclusive")
    return Ratio(
        low=round(low, 3),
        median=round(middle, 3),
        high=round(high, 3),
        one_us=round(median(costs[beside] for costs in rounds), 1),
        two_us=round(median(costs["two"] for costs in rounds), 1),
    )


if __name__ == "__main__":
    main()
