"""What may be asked of the list of jobs."""

import pytest

from penstock.clock import new_id
from penstock.errors import InvalidRequest
from penstock.records.job import JobState
from penstock.wire.resources.jobs import JOBS_DEFAULT, is_id, read_jobs_asked

# Written out: tests have the same names in each run, or they could not run on several cores.
ID = "01a1e691-81b0-7b41-9a9e-f1aa3a76fcd8"


def test_what_is_not_said_is_not_asked() -> None:
    asked = read_jobs_asked([], "acme")
    assert (asked.account, asked.model, asked.state, asked.batch, asked.after) == (
        "acme", None, None, None, None,
    )  # fmt: skip
    assert asked.limit == JOBS_DEFAULT


def test_everything_that_is_said_is_read() -> None:
    batch, after = new_id(), new_id()
    given = [("state", "queued"), ("model", "m"), ("batch", batch), ("after", after)]
    asked = read_jobs_asked([*given, ("limit", "7"), ("account", "b")], None)
    assert (asked.account, asked.model, asked.state) == ("b", "m", JobState.QUEUED)
    assert (asked.batch, asked.after, asked.limit) == (batch, after, 7)


def test_own_account_is_never_another() -> None:
    assert read_jobs_asked([("account", "b")], "acme").account == "acme"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("state", "done"),
        ("batch", "x"),
        ("after", "0" * 32),
        ("limit", "0"),
        ("limit", "1001"),
        ("limit", "1e2"),
        ("model", "\0"),
        ("nonsense", "1"),
    ],
)
def test_what_cannot_be_meant_is_refused(name: str, value: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_jobs_asked([(name, value)], None)
    assert refused.value.param == name


@pytest.mark.parametrize("text", ["", "x", "search", ID.upper(), f"{{{ID}}}", "\0"])
def test_only_ids_are_ids(text: str) -> None:
    assert is_id(new_id())
    assert not is_id(text)
