"""The kinds of traffic that are measured, and what one run of each costs a candidate."""

from pathlib import Path

import msgspec

from candidates import LOAD_CORE, Candidate
from native_programs import Report, run_load
from process_tree import cpu_seconds

STREAMS = 64
CHUNKS_PER_SECOND = 30_000
STREAM_TOKENS = 400


class Scenario(msgspec.Struct, frozen=True):
    """Arguments of the load generator, and what the CPU time is divided by."""

    name: str
    title: str
    arguments: list[str]
    # 1e6 for microseconds of CPU, 1e3 for milliseconds, per request or streamed event.
    scale: float
    counts_events: bool = False
    is_timed_to_first_token: bool = False


class Cost(msgspec.Struct, frozen=True):
    """One run: CPU per request or event in the scenario's scale, and how many there were."""

    cpu: float
    latency_p50_us: float
    first_token_p50_us: float
    rate: float
    # Requests or events.
    units: int


_INTERVAL_MICROSECONDS = STREAMS * 1_000_000 // CHUNKS_PER_SECOND

SMALL = Scenario(
    name="small", title="CPU µs/request, c=64", arguments=["-c", "64", "-b", "1900"], scale=1e6
)
SINGLE = Scenario(
    name="single", title="CPU µs/request, c=1", arguments=["-c", "1", "-b", "1900"], scale=1e6
)
CHUNK = Scenario(
    name="chunk",
    title="CPU µs/chunk",
    arguments=[
        *("-s", "-c", str(STREAMS), "-b", "1900"),
        *("-t", str(STREAM_TOKENS), "-i", str(_INTERVAL_MICROSECONDS)),
    ],
    scale=1e6,
    counts_events=True,
)
# One stream at a time: when does its first token come?
FIRST_TOKEN = Scenario(
    name="first_token",
    title="CPU µs/request, one stream of 8 chunks",
    arguments=["-s", "-c", "1", "-b", "1900", "-t", "8"],
    scale=1e6,
    is_timed_to_first_token=True,
)
# All but the last message is what this session has sent before.
BODY_300KB = Scenario(
    name="body_300kb", title="CPU ms, 300 KB", arguments=["-c", "1", "-b", "300000"], scale=1e3
)
BODY_1MB = Scenario(
    name="body_1mb", title="CPU ms, 1 MB", arguments=["-c", "1", "-b", "1000000"], scale=1e3
)
# The first turn of a conversation that nobody has sent before, each time.
BODY_300KB_NEW = Scenario(
    name="body_300kb_new",
    title="CPU ms, 300 KB, new",
    arguments=["-N", "-c", "1", "-b", "300000"],
    scale=1e3,
)
BODY_1MB_NEW = Scenario(
    name="body_1mb_new",
    title="CPU ms, 1 MB, new",
    arguments=["-N", "-c", "1", "-b", "1000000"],
    scale=1e3,
)
# A turn of an agent that has worked for a while: 40 messages in 120 KB, tools, a long stream.
AGENT = Scenario(
    name="agent",
    title="CPU ms/agent's turn",
    arguments=[
        *("-s", "-T", "-c", "16", "-b", "120000", "-l", "3017"),
        *("-t", "200", "-i", "1000"),
    ],
    scale=1e3,
)
SCENARIOS = (
    *(SMALL, SINGLE, CHUNK, FIRST_TOKEN, BODY_300KB, BODY_1MB, AGENT),
    *(BODY_300KB_NEW, BODY_1MB_NEW),
)


def run_once(scenario: Scenario, candidate: Candidate, loadgen: Path, seconds: float) -> Cost:
    """Load one candidate and read its CPU time before and after."""
    arguments = [*candidate.load_arguments(), *scenario.arguments]
    pid = candidate.process.pid if candidate.process is not None else None
    before = cpu_seconds(pid) if pid is not None else 0.0
    report = run_load(loadgen, arguments, seconds, LOAD_CORE)
    after = cpu_seconds(pid) if pid is not None else 0.0
    units = units_of(scenario, report)
    return Cost(
        cpu=(after - before) * scenario.scale / units,
        latency_p50_us=report.latency_us.p50,
        first_token_p50_us=report.first_token_us.p50,
        rate=units / report.elapsed_seconds,
        units=units,
    )


def units_of(scenario: Scenario, report: Report) -> int:
    return report.events if scenario.counts_events else report.requests
