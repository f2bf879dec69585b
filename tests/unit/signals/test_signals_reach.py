"""Whether the hosts of a roster hear each other, and one log line for each change of it."""

import logging

import pytest

from penstock.signals import Reach, SignalsSettings
from penstock.signals.reach import reach_problem

LOCAL, OFF, NATS = (SignalsSettings(transport=each) for each in ("local", "off", "nats"))


@pytest.mark.parametrize(
    ("settings", "hosts", "is_up", "part"),
    [
        (LOCAL, 1, True, ""),
        (OFF, 1, False, ""),
        (NATS, 1, False, ""),
        (LOCAL, 2, True, '2 hosts, and signals.transport is "local"'),
        (OFF, 3, False, '3 hosts, and signals.transport is "off"'),
        (NATS, 2, True, ""),
        (NATS, 2, False, "NATS cannot be reached"),
    ],
)
def test_only_nats_that_is_connected_reaches_a_second_host(
    settings: SignalsSettings, hosts: int, is_up: bool, part: str
) -> None:
    problem = reach_problem(settings, hosts, is_up=is_up)
    assert bool(problem) == bool(part)
    assert part in problem


def actions(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.__dict__["action"] for record in caplog.records]


def test_each_change_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    reach = Reach(LOCAL, "here")
    for second in range(10):
        reach.note({"here", ""}, float(second), is_up=True)
    assert (reach.problem, actions(caplog)) == ("", [])
    for second in range(10, 30):
        reach.note({"there"}, float(second), is_up=True)
    assert "2 hosts" in reach.problem
    assert actions(caplog) == ["hosts_unheard"]
    for second in range(30, 40):
        reach.note({"here"}, float(second), is_up=True)
    assert reach.problem == ""
    assert actions(caplog) == ["hosts_unheard", "hosts_heard"]


def test_a_connection_that_is_just_being_made_is_no_problem(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reach = Reach(NATS, "here")
    for tenth in range(10):
        reach.note({"there"}, tenth / 10, is_up=False)
    for tenth in range(10, 100):
        reach.note({"there"}, tenth / 10, is_up=True)
    assert (reach.problem, actions(caplog)) == ("", [])
