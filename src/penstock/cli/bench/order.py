"""Reads and checks the options of `penstock bench` before anything is sent."""

from pathlib import Path
from typing import Final

import msgspec

from penstock.cli.bench.agents import AgentLoad
from penstock.cli.bench.client import Access, base_url
from penstock.cli.bench.driver import Drive
from penstock.cli.bench.load import Load
from penstock.cli.bench.trace import TraceLoad, read_trace
from penstock.cli.dollars import read_usd
from penstock.cli.exit_codes import CommandFailed, ExitCode
from penstock.cli.http_call import HttpCaller
from penstock.config import client_defaults
from penstock.errors import ReplicaUnreachable
from penstock.records.price import Price

_ASK_SECONDS: Final = 10.0


class Outputs(msgspec.Struct, frozen=True):
    """Files for the figures. `-` is standard output, and replaces the table there."""

    json: str | None = None
    plot: Path | None = None


class BenchOrder(msgspec.Struct, frozen=True):
    """All options of a run. A trace takes precedence over the agents."""

    urls: tuple[str, ...]
    drive: Drive
    agents: AgentLoad
    trace: TraceLoad
    trace_file: Path | None
    price: Price | None
    outputs: Outputs

    def load(self) -> Load:
        if self.trace_file is None:
            return self.agents.load()
        lines = read_trace(self.trace_file, self.drive.requests_max)
        return self.trace.load(lines, self.trace_file.name)


class _Listed(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Listed] = []


def first_model(url: str, access: Access) -> str:
    """Return the first model that the address lists. Blocks."""
    keys = {"*": access.key} if access.key else {}
    caller = HttpCaller(api_keys=keys, ca_file=access.ca_file, seconds=_ASK_SECONDS)
    try:
        answer = caller.get(url, "/models")
    except ReplicaUnreachable as failure:
        raise CommandFailed(f"No answer from {failure.message}.") from None
    try:
        models = msgspec.json.decode(answer.body, type=_Models).data
    except msgspec.DecodeError:
        models = []
    if answer.status == 401:
        raise CommandFailed(
            f"{url} does not take this key."
            if access.key
            else f"{url} wants a key: pass --key or --key-file."
        )
    if answer.status != 200 or not models:
        raise CommandFailed(
            f"{url}/models lists no model (status {answer.status}): name one with --model."
        )
    return models[0].id


def read_addresses(given: list[str] | None) -> tuple[tuple[str, ...], str]:
    """Return the base URLs, and PENSTOCK_KEY if the URL is PENSTOCK_URL.

    An address of the command line may belong to anybody, so it does not get the key of the user's
    gateway.
    """
    if given:
        return tuple(base_url(each) for each in given), ""
    defaults = client_defaults()
    if not defaults.url:
        raise CommandFailed("Name an address to measure, or set PENSTOCK_URL.", ExitCode.USAGE)
    return (base_url(defaults.url),), defaults.key


def read_key(key: str, key_file: Path | None) -> str:
    found = key_file.read_text().strip() if key_file is not None else key
    if not found.isprintable() or not found.isascii():
        raise CommandFailed("The key has characters that no header may have.", ExitCode.USAGE)
    return found


def read_prices(given: tuple[str | None, str | None, str | None]) -> Price | None:
    """Read dollars per million tokens: input, cached input, output. None if none is given."""
    uncached, cached, output = (read_usd(text) for text in given)
    if uncached is None and cached is None and output is None:
        return None
    if uncached is None or output is None:
        raise CommandFailed(
            "A cost needs --price-input and --price-output; --price-cached is that of input if it"
            " is not given.",
            ExitCode.USAGE,
        )
    return Price(uncached, uncached if cached is None else cached, output)
