"""Commands that take an account take its name, where only one account has it."""

import pytest
from tests.integration.cells.commands import Penstock, read


@pytest.fixture
def account(penstock: Penstock) -> str:
    made: str = read(penstock("account", "create", "Team A", "--json"))["id"]
    return made


def test_commands_find_an_account_by_its_name(penstock: Penstock, account: str) -> None:
    key = read(penstock("key", "create", "--account", "Team A", "--json"))
    assert key["account"] == account
    listed = read(penstock("key", "list", "--account", "Team A", "--json"))
    assert [each["id"] for each in listed] == [key["id"]]
    (limit,) = read(
        penstock("limit", "set", "--account", "Team A", "--requests-per-day", "9", "--json")
    )
    assert limit["account"] == account
    assert len(read(penstock("limit", "list", "--account", "Team A", "--json"))) == 1
    changed = read(penstock("account", "set", "Team A", "--flex-weight", "3", "--json"))
    assert (changed["id"], changed["flex_weight"]) == (account, 3)
    assert read(penstock("account", "block", "Team A", "--json"))["is_blocked"] is True
    assert penstock("account", "unblock", "Team A").stdout == f"account Team A ({account}) active\n"
    assert read(penstock("jobs", "list", "--account", "Team A", "--json")) == []


def test_lists_show_accounts_by_name(penstock: Penstock, account: str) -> None:
    penstock("key", "create", "--account", account)
    penstock("limit", "set", "--account", account, "--requests-per-day", "9")
    for command in ("key", "limit"):
        table = penstock(command, "list").stdout
        assert "Team A" in table
        assert account not in table


def test_a_name_of_two_accounts_is_refused_with_their_ids(penstock: Penstock, account: str) -> None:
    other = read(penstock("account", "create", "Team A", "--json"))["id"]
    refused = penstock("key", "create", "--account", "Team A")
    assert refused.exit_code == 2
    assert account in refused.stderr
    assert other in refused.stderr
    assert read(penstock("key", "create", "--account", other, "--json"))["account"] == other
    penstock("limit", "set", "--account", account, "--requests-per-day", "9")
    assert account in penstock("limit", "list").stdout, "the name would not tell which one"


@pytest.mark.parametrize(
    "arguments",
    [
        ("key", "create", "--account", "nobody"),
        ("key", "list", "--account", "nobody"),
        ("limit", "set", "--account", "nobody", "--requests-per-day", "1"),
        ("limit", "list", "--account", "nobody"),
        ("jobs", "list", "--account", "nobody"),
        ("usage", "--account", "nobody"),
        ("account", "block", "nobody"),
    ],
    ids=" ".join,
)
def test_unknown_names_say_where_to_look(penstock: Penstock, arguments: tuple[str, ...]) -> None:
    refused = penstock(*arguments)
    assert (refused.exit_code, refused.stdout) == (4, "")
    assert refused.stderr == (
        "error: There is no account nobody. `penstock account list` shows them.\n"
    )
