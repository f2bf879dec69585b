"""Each file of deploy/ for hosts, read by its own tool; and the checks can fail."""

from pathlib import Path

import pytest
from tests.acceptance.deploy_machine import AS_SERVICE
from tests.acceptance.deploy_tools import CHECKS, ROOT, check_compose, check_nginx, check_service

FOLDERS = ("compose", "nginx", "systemd")


@pytest.mark.parametrize("name", CHECKS)
def test_file_is_read_by_its_tool(name: str) -> None:
    CHECKS[name](ROOT / name)


def test_no_file_is_left_out() -> None:
    found = [path for folder in FOLDERS for path in (ROOT / "deploy" / folder).iterdir()]
    names = {str(path.relative_to(ROOT)) for path in found if path.name != ".env"}
    assert names == set(CHECKS)


@pytest.mark.parametrize("name", [*CHECKS, "deploy/container/Dockerfile"])
def test_file_says_what_tests_ran_of_it(name: str) -> None:
    """Or the file beside it does, which is its reader."""
    beside = {".env.example", "penstock.toml"}
    text = (ROOT / name).read_text()
    if Path(name).name in beside:
        text = (ROOT / name).with_name("compose.yaml").read_text()
    assert "Run by tests" in text


def test_page_has_the_line_that_the_units_test_runs() -> None:
    page = (ROOT / "deploy" / "README.md").read_text()
    assert " ".join(AS_SERVICE) in page


@pytest.mark.parametrize(
    ("check", "name", "old", "new"),
    [
        (check_compose, "compose/compose.yaml", "read_only: true", "read_onyl: true"),
        (check_service, "systemd/penstock-gateway.service", "ProtectHome=", "ProtectHouse="),
        (check_service, "systemd/penstock-gateway.service", "SystemCallFilter=", "#"),
        (check_nginx, "nginx/penstock.conf", "proxy_buffering off", "proxy_bufering off"),
    ],
)
def test_mistake_is_found(check: object, name: str, old: str, new: str, tmp_path: Path) -> None:
    text = (ROOT / "deploy" / name).read_text()
    assert old in text
    wrong = tmp_path / Path(name).name
    wrong.write_text(text.replace(old, new))
    assert callable(check)
    with pytest.raises(AssertionError):
        check(wrong)
