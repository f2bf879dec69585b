"""Two periods compared over the operator's API and by `penstock usage diff`."""

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.integration.cells.commands import Penstock, read
from tests.integration.cells.control_process import ControlProcess, control_process
from tests.integration.cells.usage_rows import attempt, write
from typer.testing import CliRunner

from penstock.cli.commands import app
from penstock.clock import SystemClock
from penstock.records.price import Price
from penstock.store import Store, StoreSettings

# The catalogue's file has the same prices: they rise when yesterday begins.
CHEAP = Price(600_000_000, 150_000_000, 3_000_000_000)
DEAR = Price(660_000_000, 165_000_000, 3_300_000_000)
NOW = datetime.fromtimestamp(SystemClock().now(), UTC)
MIDNIGHT = NOW.replace(hour=0, minute=0, second=0, microsecond=0)
DAY = timedelta(days=1)
# The two days before the last midnight are compared.
YESTERDAY, EARLIER = MIDNIGHT - DAY, MIDNIGHT - 2 * DAY
ENTRY = f"""
id = "@cf/test/chat"
family = "openai"
context_tokens = 8192

[recipe]
command = ["x", "--port", "{{port}}"]

[[prices]]
input_usd_per_mtok = 0.60
cached_input_usd_per_mtok = 0.15
output_usd_per_mtok = 3.00

[[prices]]
valid_from = {YESTERDAY:%Y-%m-%d}
input_usd_per_mtok = 0.66
cached_input_usd_per_mtok = 0.165
output_usd_per_mtok = 3.30
"""
PERIOD = ("--since", f"{YESTERDAY:%Y-%m-%d}", "--until", f"{MIDNIGHT:%Y-%m-%d}")


@pytest.fixture
def control(dsn: str, tmp_path: Path) -> Iterator[ControlProcess]:
    """Control with a catalogue of one model, whose price rose yesterday."""
    folder = tmp_path / "catalogue"
    folder.mkdir()
    (folder / "chat.toml").write_text(ENTRY)
    with control_process(dsn, tmp_path, {"catalogue.folder": str(folder)}) as control:
        yield control


@pytest.fixture
def account(dsn: str, control: ControlProcess) -> str:
    """An account whose cache broke yesterday, and whose prompts became longer and dearer."""
    with control.client() as client:
        made: str = client.post("/accounts", json={"name": "Team A"}).json()["id"]
    asyncio.run(_fill(dsn, made))
    return made


async def _fill(dsn: str, account: str) -> None:
    store = Store(StoreSettings(dsn=dsn))
    await store.open()
    try:
        rows = []
        for hour in range(24):
            seconds = EARLIER.timestamp() + hour * 3600
            known: dict[str, Any] = {"workflow": "nightly", "output_tokens": 100}
            before: dict[str, Any] = {
                "prompt_tokens": 10_000,
                "cached_tokens": 9_100,
                "price": CHEAP,
            }
            after: dict[str, Any] = {"prompt_tokens": 12_310, "cached_tokens": 6_401, "price": DEAR}
            rows.append(attempt(account, asked_at=seconds, **known, **before))
            rows.append(attempt(account, asked_at=seconds + 86_400, **known, **after))
        await write(store, rows)
    finally:
        await store.close()


@pytest.fixture
def remote(control: ControlProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Penstock:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_OPERATOR_URL", control.url)
    monkeypatch.setenv("PENSTOCK_OPERATOR_KEY", control.keys.auditor)
    return lambda *arguments: CliRunner().invoke(app, ["usage", "diff", *arguments])


def test_difference_is_served_with_its_causes(control: ControlProcess, account: str) -> None:
    params = {"since": f"{YESTERDAY:%Y-%m-%d}", "until": f"{MIDNIGHT:%Y-%m-%d}"}
    with control.client(control.keys.auditor) as client:
        answer = client.get("/usage/difference", params=params).json()
        wrong = client.get("/usage/difference", params={"against": "never"})
    assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "against")
    assert answer["account_names"] == {account: "Team A"}
    found = answer["difference"]
    (row,) = found["rows"]
    assert row["labels"] == {"account": account, "workflow": "nightly"}
    before = 24 * (900 * 600 + 9_100 * 150 + 100 * 3_000)
    after = 24 * (5_909 * 660 + 6_401 * 165 + 100 * 3_300)
    assert (row["before_nanousd"], row["after_nanousd"]) == (before, after)
    parts = row["parts_nanousd"]
    assert sum(parts.values()) == row["change_nanousd"] == after - before
    assert {name for name, part in parts.items() if part} == {"prompts", "cache", "price"}
    assert row["why"] == "hit ratio 91 → 52 %; prompts +2,310 tokens a request"
    assert (found["unpriced_models"], found["dearer_models"]) == ([], [])


def test_command_prints_and_alarms(remote: Penstock, account: str) -> None:
    found = read(remote(*PERIOD, "--json"))
    change = found["total"]["change_nanousd"]
    assert change > 0
    shown = remote(*PERIOD, "--by", "workflow")
    assert shown.exit_code == 0
    assert "hit ratio 91 → 52 %" in shown.stdout
    assert "Team A" in remote(*PERIOD, "--account", "Team A").stdout

    over = remote(*PERIOD, "--alarm-usd", "0.01")
    assert (over.exit_code, over.stdout) == (6, remote(*PERIOD).stdout)
    assert over.stderr.startswith("error: The cost rose by $0.0")
    exact = f"{change / 10**9:.9f}"
    assert remote(*PERIOD, "--alarm-usd", exact).exit_code == 0
    # The report is printed for scripts too, before the alarm.
    loud = remote(*PERIOD, "--alarm-usd", "0.01", "--json")
    assert (loud.exit_code, json.loads(loud.stdout)) == (6, found)
    # A fall is no alarm: the other way round the cost falls by as much.
    back = ("--since", f"{EARLIER:%Y-%m-%d}", "--until", f"{YESTERDAY:%Y-%m-%d}")
    fell = remote(*back, "--against", f"{YESTERDAY:%Y-%m-%d}", "--alarm-usd", "0", "--json")
    assert (fell.exit_code, json.loads(fell.stdout)["total"]["change_nanousd"]) == (0, -change)


def test_wrong_options_end_with_2_without_asking(remote: Penstock) -> None:
    for wrong in (("--against", "never"), ("--by", "model"), ("--alarm-usd", "much")):
        assert remote(*wrong).exit_code == 2, wrong
