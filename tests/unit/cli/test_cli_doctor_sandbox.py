"""The doctor's rows of a sandbox host."""

from pathlib import Path

from penstock.cli.doctor.check import CheckVerdict
from penstock.cli.doctor.sandbox import check_sandbox
from penstock.sandbox.settings import SandboxSettings


def test_there_are_no_rows_where_none_is_configured() -> None:
    assert check_sandbox(SandboxSettings()) == []


def test_every_part_has_a_row(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.touch(0o600)
    token.write_text("x" * 16)
    settings = SandboxSettings(token_file=str(token), image=str(tmp_path / "none"))
    rows = {check.name: check for check in check_sandbox(settings)}
    assert list(rows) == [
        *("sandbox token", "sandbox bubblewrap", "sandbox root", "sandbox control groups"),
        *("sandbox seccomp", "sandbox image"),
    ]
    assert rows["sandbox token"].verdict is CheckVerdict.OK
    assert rows["sandbox image"].verdict is CheckVerdict.FAIL
    assert f"penstock sandbox image {settings.image}" in rows["sandbox image"].advice
    token.write_text("short")
    assert check_sandbox(settings)[0].verdict is CheckVerdict.FAIL
