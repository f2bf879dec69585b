"""The command `penstock bench`: runs a load and prints the figures."""

import asyncio
import secrets
from pathlib import Path

import msgspec
import uvloop
from rich.markup import escape

from penstock.cli.bench import options
from penstock.cli.bench.agents import AgentLoad
from penstock.cli.bench.client import Access
from penstock.cli.bench.display import show_progress
from penstock.cli.bench.driver import Drive, Driver
from penstock.cli.bench.figures import Report, first_tokens_ms, report
from penstock.cli.bench.order import (
    BenchOrder,
    Outputs,
    first_model,
    read_addresses,
    read_key,
    read_prices,
)
from penstock.cli.bench.plot import check_plot, write_plot
from penstock.cli.bench.sample import Sample
from penstock.cli.bench.tables import closing
from penstock.cli.bench.trace import TraceLoad
from penstock.cli.exit_codes import CommandFailed, ExitCode
from penstock.cli.output import console, error_console, print_json, write_json
from penstock.cli.stop_signals import StopSignals
from penstock.clock import SystemClock


def bench(  # noqa: PLR0913 - each is an option of the command line
    url: options.Url = None,
    *,
    key: options.Key = "",
    key_file: options.KeyFile = None,
    ca_file: options.CaFile = "",
    model: options.Model = "",
    affinity: options.Affinity = True,
    sessions: options.Sessions = 20,
    turns: options.Turns = 6,
    system_tokens: options.SystemTokens = 2_000,
    first_tokens: options.FirstTokens = 1_000,
    turn_tokens: options.TurnTokens = 300,
    output_tokens: options.OutputTokens = 64,
    think: options.Think = 1.0,
    rate: options.Rate = 0.0,
    trace: options.TraceFile = None,
    speed: options.Speed = 1.0,
    concurrency: options.Concurrency = 64,
    requests: options.Requests = 10_000,
    seconds: options.Seconds = 600.0,
    timeout: options.Timeout = 300.0,
    prompt_tokens_max: options.PromptTokensMax = 100_000,
    ignore_eos: options.IgnoreEos = False,
    seed: options.Seed = None,
    price_input: options.PriceInput = None,
    price_cached: options.PriceCached = None,
    price_output: options.PriceOutput = None,
    plot: options.PlotFile = None,
    json: options.JsonFile = None,
) -> None:
    """Measure an OpenAI-compatible address: first tokens, tokens, cache hits, cost, errors.

    Ctrl-C ends it with the figures so far.
    """
    urls, own_key = read_addresses(url)
    access = Access(read_key(key or own_key, key_file), ca_file, timeout)
    check_plot(plot)
    seed = _fresh_seed() if seed is None else seed
    order = BenchOrder(
        urls=urls,
        drive=Drive(
            model=model or first_model(urls[0], access),
            access=access,
            has_affinity=affinity,
            ignores_eos=ignore_eos,
            concurrency=concurrency,
            requests_max=requests,
            seconds_max=seconds,
        ),
        agents=AgentLoad(
            sessions=sessions,
            turns=turns,
            system_tokens=system_tokens,
            first_tokens=first_tokens,
            turn_tokens=turn_tokens,
            output_tokens=output_tokens,
            think_seconds=think,
            rate=rate,
            prompt_tokens_max=prompt_tokens_max,
            seed=seed,
        ),
        trace=TraceLoad(speed, prompt_tokens_max, output_tokens, seed),
        trace_file=trace,
        price=read_prices((price_input, price_cached, price_output)),
        outputs=Outputs(json, plot),
    )
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        figures, samples = runner.run(_measure(order))
    _tell(order, figures, samples)


def _fresh_seed() -> int:
    """Return a new seed, because the last run's texts are cached by now."""
    return secrets.randbits(31)


async def _measure(order: BenchOrder) -> tuple[Report, list[Sample]]:
    signals = StopSignals()
    clock = SystemClock()
    load = order.load()
    requests = min(load.requests, order.drive.requests_max)
    driver = Driver(order.urls, order.drive, clock)
    async with asyncio.TaskGroup() as group:
        showing = group.create_task(show_progress(driver, requests, error_console()))
        await driver.run(load, signals.asked)
        showing.cancel()
    figures = report(
        driver.seen,
        driver.lag,
        load=load.description,
        model=order.drive.model,
        price=order.price,
    )
    return figures, driver.seen.samples


class _Document(msgspec.Struct, frozen=True):
    """The document that --json writes."""

    report: Report
    samples: list[Sample]


def _tell(order: BenchOrder, figures: Report, samples: list[Sample]) -> None:
    outputs = order.outputs
    if outputs.json == "-":
        print_json(_Document(figures, samples))
    else:
        out = console()
        out.print(f"[bold]{escape(figures.load)}[/], {escape(figures.model)}\n", soft_wrap=True)
        out.print(closing(figures, first_tokens_ms(samples)))
        if outputs.json is not None:
            Path(outputs.json).write_bytes(write_json(_Document(figures, samples)))
    if outputs.plot is not None:
        write_plot(outputs.plot, figures, samples)
    if not figures.ok:
        raise CommandFailed("Not one request was answered.", ExitCode.FAILED)
