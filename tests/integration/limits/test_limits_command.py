"""`penstock limit` and `penstock account set` against a real database."""

import psycopg
from tests.integration.cells.commands import Penstock, read


def test_limits_are_set_listed_and_removed(penstock: Penstock) -> None:
    account = read(penstock("account", "create", "Team A", "--json"))["id"]
    limits = read(
        penstock(
            "limit", "set", "--account", account, "--requests-per-minute", "60",
            "--usd-per-day", "12.50", "--json",
        )
    )  # fmt: skip
    assert [(each["measure"], each["period"], each["amount"]) for each in limits] == [
        ("requests", "minute", 60),
        ("nanousd", "day", 12_500_000_000),
    ]
    soft = penstock(
        "limit", "set", "--account", account, "--session", "*", "--tokens-per-month", "1", "--warn"
    )
    assert soft.stdout == "limit 3: 1 token per month\n"
    listed = read(penstock("limit", "list", "--account", account, "--json"))
    assert [each["free"] for each in listed] == [60, 12_500_000_000, 1]
    table = penstock("limit", "list").stdout
    assert "12.50 USD" in table
    assert "session * (furthest: none)" in table
    assert "warns" in table
    assert penstock("limit", "remove", "1").exit_code == 0
    assert read(penstock("limit", "remove", "2", "--json")) == {"id": 2, "is_removed": True}
    assert len(read(penstock("limit", "list", "--json"))) == 1
    missing = penstock("limit", "remove", "2")
    assert (missing.exit_code, missing.stderr) == (4, "error: There is no limit 2.\n")


def add_holders(dsn: str, *, minutes: int) -> list[str]:
    """Two, with a lease each, that expire at this time from now."""
    holders = [f"00000000-0000-7000-8000-00000000000{number}" for number in (1, 2)]
    with psycopg.connect(dsn) as connection:
        for holder in holders:
            connection.execute(
                "insert into lease_holders values (%s, now() + make_interval(mins => %s))",
                (holder, minutes),
            )
            connection.execute("insert into leases values (1, '', now(), %s, 5)", (holder,))
    return holders


def test_holders_of_leases_are_listed_and_released(penstock: Penstock, dsn: str) -> None:
    holders = add_holders(dsn, minutes=-1)
    assert [each["id"] for each in read(penstock("limit", "leases", "--json"))] == holders
    assert "lost" in penstock("limit", "leases").stdout
    assert penstock("limit", "release", "--holder", holders[0]).stdout == "1 leases released\n"
    released = read(penstock("limit", "release", "--holder", holders[1], "--json"))
    assert released == {"holder": holders[1], "released": 1}
    again = penstock("limit", "release", "--holder", holders[1])
    assert again.exit_code == 4


def test_a_holder_that_lives_is_released_by_force_only(penstock: Penstock, dsn: str) -> None:
    holders = add_holders(dsn, minutes=1)
    refused = penstock("limit", "release", "--holder", holders[0])
    assert refused.exit_code == 1
    assert "--force" in refused.stderr
    assert len(read(penstock("limit", "leases", "--json"))) == 2
    forced = read(penstock("limit", "release", "--holder", holders[0], "--force", "--json"))
    assert forced == {"holder": holders[0], "released": 1}
    (left,) = read(penstock("limit", "leases", "--json"))
    assert (left["id"], left["is_expired"]) == (holders[1], False)


def test_an_account_chooses_what_happens_in_an_outage(penstock: Penstock) -> None:
    made = read(penstock("account", "create", "Team A", "--on-outage", "refuse", "--json"))
    assert made["on_outage"] == "refuse"
    changed = read(penstock("account", "set", made["id"], "--on-outage", "continue", "--json"))
    assert changed["on_outage"] == "continue"
    assert "continue" in penstock("account", "list").stdout
    missing = penstock("account", "set", "0" * 32, "--on-outage", "refuse")
    assert missing.exit_code == 4
