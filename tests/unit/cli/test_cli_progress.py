"""The line about replicas that come up."""

import io
import subprocess
import sys

import msgspec
import pytest
from rich.console import Console

from penstock.cli.load_stages import stage_of
from penstock.cli.progress import PlainLines, ProgressLine, starting_line
from penstock.fleet.progress import ReplicaProgress
from penstock.records.model import ModelId
from penstock.records.replica import ReplicaId, ReplicaState
from penstock.testing import ManualClock

VLLM_LINE = "(Worker pid=7) INFO 11-15 03:59:05 [runner.py:68] Loading weights: [50%]"


def news(
    state: ReplicaState = ReplicaState.STARTING, *, line: str = VLLM_LINE, detail: str = ""
) -> ReplicaProgress:
    model = ModelId("@cf/moonshotai/kimi-k2.5")
    return ReplicaProgress(ReplicaId("r1"), model, state, 42.4, "http://h:1", line, detail)


def pipe() -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    return Console(file=file, width=1000), file


def test_line_has_elapsed_time_and_the_stage_of_the_load() -> None:
    console, file = pipe()
    console.print(starting_line([news()], {ReplicaId("r1"): "loading weights, 50 %"}))
    console.print(starting_line([news()], {}))
    assert file.getvalue() == (
        "starting kimi-k2.5 42 s loading weights, 50 %\n"
        "starting kimi-k2.5 42 s starting its program\n"
    )


def test_of_many_replicas_the_first_few_are_shown_and_printed_once() -> None:
    console, file = pipe()
    with ProgressLine(console, ManualClock()) as line:
        for _ in range(2):
            for number in range(500):
                line.take(msgspec.structs.replace(news(), replica=ReplicaId(f"r{number}")))
    printed = file.getvalue().splitlines()
    assert len(printed) == 8
    assert [text.count("starting") for text in printed] == list(range(1, 9))
    assert starting_line([news()] * 500, {}).endswith("; and 492 more")


def test_a_line_that_names_no_stage_keeps_the_last_one() -> None:
    console, file = pipe()
    clock = ManualClock()
    with ProgressLine(console, clock) as line:
        line.take(news())
        clock.advance(11.0)
        line.take(news(line="WARNING Found ulimit of 20000 and failed to increase it"))
    assert file.getvalue() == "starting kimi-k2.5 42 s loading weights, 50 %\n" * 2


def test_a_fetch_of_weights_is_shown_until_the_replica_starts() -> None:
    console, file = pipe()
    reason = "fetches its weights: 12.3 of 595.0 GB"
    fetching = ReplicaProgress(
        ReplicaId(""), news().model, ReplicaState.STARTING, 0.0, detail=reason, is_fetching=True
    )
    with ProgressLine(console, ManualClock()) as line:
        line.take(fetching)
        line.take(fetching)
        line.take(news())
    assert file.getvalue().splitlines() == [
        f"waiting kimi-k2.5 {reason}",
        "starting kimi-k2.5 42 s loading weights, 50 %",
    ]


@pytest.mark.parametrize(
    ("line", "stage"),
    [
        ("Resolved architecture: LlamaForCausalLM", "reading the model's configuration"),
        ("Starting to load model HuggingFaceTB/SmolLM2...", "loading weights"),
        ("Loading safetensors checkpoint shards:  25% Completed | 1/4", "loading weights, 25 %"),
        ("Dynamo bytecode transform time: 5.93 s", "compiling"),
        ("GPU KV cache size: 524,288 tokens", "setting up its cache"),
        ("Capturing CUDA graphs (decode, FULL):  50%|", "capturing graphs, 50 %"),
        ("Warming up model for the compilation...", "warming up"),
        ("INFO:     Application startup complete.", "opening its address"),
        ("Found ulimit of 20000 and failed to automatically increase", None),
    ],
)
def test_vllms_messages_are_told_as_stages(line: str, stage: str | None) -> None:
    assert stage_of(line) == stage


def test_elsewhere_than_on_a_terminal_it_repeats_itself_every_ten_seconds() -> None:
    console, file = pipe()
    clock = ManualClock()
    with ProgressLine(console, clock) as line:
        for _ in range(25):
            line.take(news())
            clock.advance(1.0)
    assert file.getvalue().count("starting kimi-k2.5") == 3


def test_change_of_state_is_told_at_once_with_its_reason() -> None:
    console, file = pipe()
    with ProgressLine(console, ManualClock()) as line:
        line.take(news(ReplicaState.GONE, detail="exit code 1: [Errno 2]"))
        line.take(news(ReplicaState.READY))
    assert file.getvalue() == "gone kimi-k2.5: exit code 1: [Errno 2]\nready kimi-k2.5\n"


def test_on_a_terminal_it_stays_within_one_line() -> None:
    file = io.StringIO()
    console = Console(file=file, width=40, force_terminal=True, color_system=None)
    with ProgressLine(console, ManualClock()) as line:
        line.take(news(detail="x" * 500))
        line.take(news(ReplicaState.READY))
    shown = file.getvalue()
    assert "starting kimi-k2.5 42 s" in shown
    assert "…" in shown
    assert "x" * 40 not in shown
    assert "ready kimi-k2.5 in 42 s\n" in shown


def test_lines_without_a_terminal_are_those_of_a_pipe() -> None:
    clock, (console, piped), plain = ManualClock(), pipe(), io.StringIO()
    line, lines = ProgressLine(console, clock), PlainLines(plain, clock)
    ready = ReplicaState.READY
    for each in (news(), news(), news(line="[bold]odd[/] \\[x]"), news(ready), news(detail="[a]")):
        line.take(each)
        lines.take(each)
        clock.advance(11)
    assert plain.getvalue() == piped.getvalue()
    assert "[a]" in plain.getvalue()


def test_a_keepers_own_process_has_neither_typer_nor_rich() -> None:
    code = "import sys, penstock.cli.keeper_process; print({'typer', 'rich'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
