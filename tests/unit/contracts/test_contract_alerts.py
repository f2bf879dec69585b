"""Alerts of objectives: none that could never fire."""

from pathlib import Path

import msgspec
import pytest
from tests.unit.contracts.contract_samples import TOP
from typer.testing import CliRunner

from penstock.cli.commands import app
from penstock.contracts.alerts import alert_rules
from penstock.contracts.cases import parse_cases
from penstock.contracts.contract_error import ContractError
from penstock.contracts.reading import read_contract


@pytest.mark.parametrize(
    ("objectives", "windows"),
    [
        ("{ success = 0.995 }", ["1h", "6h", "1d", "3d"]),
        # 14.4 times a tenth is more than all requests.
        ("{ success = 0.9 }", ["6h", "1d", "3d"]),
        ("{ first_token_ms = { p50 = 500 } }", ["3d"]),
    ],
)
def test_a_rule_that_no_share_of_bad_requests_reaches_is_left_out(
    objectives: str, windows: list[str]
) -> None:
    text = alert_rules([read_contract(f"{TOP}objectives = {objectives}")])
    rules = msgspec.json.decode(text)["groups"][0]["rules"]
    assert [rule["labels"]["window"] for rule in rules] == windows


def test_each_alert_has_the_address_of_its_runbook(tmp_path: Path) -> None:
    objectives = "{ success = 0.995, recovered = 0.99, first_token_ms = { p95 = 2000 } }"
    (tmp_path / "code-review.toml").write_text(f"{TOP}objectives = {objectives}\n")
    command = ["contracts", "alerts", str(tmp_path), "--docs-url", "https://docs.example.org/p/"]
    printed = CliRunner().invoke(app, command, catch_exceptions=False)
    assert printed.exit_code == 0, printed.output
    rules = msgspec.json.decode(printed.stdout)["groups"][0]["rules"]
    assert {rule["annotations"]["runbook_url"] for rule in rules} == {
        f"https://docs.example.org/p/runbooks/{name}/"
        for name in ("PenstockFirstTokensLate", "PenstockRequestsFail", "PenstockRetriesFail")
    }


@pytest.mark.parametrize("text", [f"a = {'[' * 5000}", "case = 1", f"a = {'1' * 5000}"])
def test_a_file_of_cases_that_cannot_be_read_says_so(text: str) -> None:
    with pytest.raises(ContractError, match=r"cases\.toml: "):
        parse_cases(text, "cases.toml")
