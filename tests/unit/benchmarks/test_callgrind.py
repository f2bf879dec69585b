"""A profile is read as its format says: names by number, and a call's cost on the line after it."""

from callgrind import Profile, read_profile

PROFILE = """\
version: 1
events: Ir

fn=(1) outer
10 100
cfn=(2) inner
calls=3 20
11 60
+1 5
fn=(2)
20 60
fn=(1)
* 7
totals: 172
"""


def test_own_and_inclusive_costs_are_told_apart() -> None:
    profile = read_profile(PROFILE.splitlines())
    assert profile.own == {"outer": 112, "inner": 60}
    assert profile.inclusive == {"outer": 172, "inner": 60}
    assert profile.total == 172


def test_calls_are_counted_for_the_one_that_is_called() -> None:
    assert read_profile(PROFILE.splitlines()).calls == {"inner": 3}


def test_profiles_are_subtracted_function_by_function() -> None:
    long, short = read_profile(PROFILE.splitlines()), Profile()
    short.own["inner"], short.own["gone"], short.calls["inner"] = 20, 1, 1
    left = long.minus(short)
    assert left.own == {"outer": 112, "inner": 40, "gone": -1}
    assert (left.calls["inner"], left.total) == (2, 151)
