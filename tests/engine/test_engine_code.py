"""A real engine's model writes a program, forced by grammar, and a real container runs it."""

import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import psycopg
import pytest
from tests.engine.real_cell import TEXT_MODEL, Cell, running_up
from tests.integration.sandbox.host_process import SandboxHost, sandbox_host

from penstock.catalogue.models import BUILTIN_FOLDER
from penstock.sandbox.bubblewrap import Bubblewrap
from penstock.sandbox.control_groups import ControlGroups
from penstock.sandbox.image import make_image
from penstock.store.embedded import EmbeddedPostgres

# SmolLM2 calls no tool by itself, and its cache has blocks of 128 tokens.
_PATTERN = r"print\([0-9]{1,3}\*[0-9]{1,3}\)"
_LONG = "The penstock feeds the turbine with water from the dam above it, and the gate closes. "
_ASKED: Any = {
    "model": TEXT_MODEL,
    "instructions": _LONG * 20,
    "input": "What is 12 times 34?",
    "tools": [{"type": "code_interpreter", "container": {"type": "auto"}}],
    "tool_choice": {"type": "code_interpreter"},
    "include": ["code_interpreter_call.outputs"],
    "max_output_tokens": 120,
}
_LEDGER_SECONDS = 20.0


@pytest.fixture(scope="module")
def host() -> Iterator[SandboxHost]:
    """Containers by bubblewrap where this machine can; else child processes, as with `--dev`."""
    # Not below a folder that is shut to the containers' users.
    folder = Path(tempfile.mkdtemp(prefix="penstock-engine-code-"))
    try:
        folder.chmod(0o755)
        image = folder / "image"
        has_bubblewrap = not Bubblewrap(image, ControlGroups()).host_problem()
        if has_bubblewrap:
            make_image(image, ())
        options = () if has_bubblewrap else ("--dev",)
        settings = {"uid_first": 290_000, "uids": 16, "containers_max": 16, "warm": 1}
        with sandbox_host(folder, *options, image=image, **settings) as running:
            yield running
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def tools_cell(
    cell: Cell, host: SandboxHost, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cell]:
    """A second cell in front of the same engine, that runs tools."""
    folder = tmp_path_factory.mktemp("tools")
    (folder / "models").mkdir()
    entry = (BUILTIN_FOLDER / "smollm2-135m-instruct.toml").read_text()
    (folder / "models" / "smollm2.toml").write_text(f"python_pattern = '{_PATTERN}'\n{entry}")
    engine = cell.engine(TEXT_MODEL)
    (folder / "penstock.toml").write_text(
        '[catalogue]\nfolder = "models"\n'
        f'[engine]\napi_keys = {{ "{engine.url}" = "{engine.engine_key}" }}\n'
        f'[tools]\nsandbox_hosts = ["{host.url}"]\nsandbox_token_file = "{host.token_file}"\n'
        "allow_shared_kernel = true\n"
    )
    with running_up(folder, "--attach", engine.url) as attached:
        yield attached


@pytest.fixture(scope="module")
def client(tools_cell: Cell) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=tools_cell.openai_url, api_key=tools_cell.key, max_retries=0
    ) as made:
        yield made


def _ledger(cell: Cell, response: str, rows: int) -> list[tuple[Any, ...]]:
    """The calls of a response in the ledger: outcome, prompt, cached and output tokens."""
    dsn = EmbeddedPostgres(Path(cell.state) / "postgres").dsn
    deadline = time.monotonic() + _LEDGER_SECONDS
    while True:
        with psycopg.connect(dsn) as connection:
            found = connection.execute(
                "select outcome, prompt_tokens, cached_tokens, output_tokens from usage_attempts"
                " where replace(parent_id, '-', '') = %s order by request",
                (response.partition("_")[2],),
            ).fetchall()
        if len(found) >= rows or time.monotonic() > deadline:
            return found
        time.sleep(0.2)


def _product(call: Any) -> str:
    """What the program of a call must print."""
    assert call.type == "code_interpreter_call"
    assert call.status == "completed"
    assert re.fullmatch(_PATTERN, call.code), call.code
    one, other = re.findall(r"[0-9]+", call.code)
    return f"{int(one) * int(other)}\n"


def test_forced_program_runs_and_the_model_goes_on(tools_cell: Cell, client: openai.OpenAI) -> None:
    with client.responses.stream(**_ASKED) as stream:
        events = list(stream)
        response = stream.get_final_response()
    assert [event.sequence_number for event in events] == list(range(len(events)))
    call, message = response.output
    product = _product(call)
    assert call.type == "code_interpreter_call"
    assert [each.to_dict() for each in call.outputs or ()] == [{"type": "logs", "logs": product}]
    assert message.type == "message"
    assert response.output_text
    calls = _ledger(tools_cell, response.id, 2)
    assert [row[0] for row in calls] == ["ok", "ok"]
    # The second prompt begins with the first one.
    assert calls[1][2] >= 2 * 128
    assert response.usage is not None
    assert response.usage.input_tokens == sum(row[1] for row in calls)
    assert response.usage.output_tokens == sum(row[3] for row in calls)


def test_model_answers_without_tools_when_its_calls_are_used_up(client: openai.OpenAI) -> None:
    response = client.responses.create(**_ASKED, max_tool_calls=1)
    call, message = response.output
    assert _product(call)
    assert message.type == "message"


def test_program_that_is_cut_is_not_run(tools_cell: Cell, client: openai.OpenAI) -> None:
    response = client.responses.create(**{**_ASKED, "max_output_tokens": 8})
    assert response.status == "incomplete"
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_output_tokens"
    assert not [item for item in response.output if item.type == "code_interpreter_call"]
    assert len(_ledger(tools_cell, response.id, 1)) == 1
