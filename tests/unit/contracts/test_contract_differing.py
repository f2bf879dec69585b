"""Two contracts differ by what they mean; the text, its comments and its order do not count."""

import pytest
from tests.unit.contracts.contract_samples import MODELS, TOP

from penstock.contracts.differing import ContractChange, Difference, differences
from penstock.contracts.reading import read_contract

DENY = 'tools.default = "deny"'


def changes(before: str, after: str) -> list[ContractChange]:
    return differences({"w": read_contract(before)}, {"w": read_contract(after)})


def only(before: str, after: str) -> Difference:
    (change,) = changes(before, after)
    (difference,) = change.differences
    return difference


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (TOP, f"# why it is so\n{TOP}\n\n"),
        (TOP, 'name = "code-review"\nschema = 1'),
        (TOP, f'{TOP}mode = "enforce"\naccounts = ["*"]'),
        (f"{TOP}output = {{ tokens_max = 4096 }}", f"{TOP}[output]\ntokens_max = 4_096 # long"),
        (f'{TOP}accounts = ["a", "b"]', f'{TOP}accounts = ["b", "a"]'),
        (TOP + MODELS, f'{TOP}[models]\nclass.look = "eyes"\nclass.extract = "small"\n'
                       'asked = "obey"\nrule = []\ndefault = "big"'),
    ],
)  # fmt: skip
def test_another_way_to_write_it_is_no_difference(before: str, after: str) -> None:
    assert changes(before, after) == []


def test_added_and_removed_contracts_are_shown_with_what_they_say() -> None:
    contract = read_contract(f"{TOP}[output]\ntokens_max = 100")
    shown = [
        Difference("accounts", "none", '["*"]'),
        Difference("critical", "none", "false"),
        Difference("mode", "none", "enforce"),
        Difference("output.tokens_max", "none", "100"),
    ]
    assert differences({}, {"w": contract}) == [ContractChange("w", "added", shown)]
    (removed,) = differences({"w": contract}, {})
    assert removed.kind == "removed"
    assert Difference("output.tokens_max", "100", "none") in removed.differences


def test_contracts_come_by_name_and_equal_ones_are_left_out() -> None:
    one, other = read_contract(TOP), read_contract(f'{TOP}mode = "observe"')
    found = differences({"c": one, "b": one, "a": one}, {"c": other, "b": one, "d": one})
    assert [(each.name, each.kind) for each in found] == [
        ("a", "removed"),
        ("c", "changed"),
        ("d", "added"),
    ]


@pytest.mark.parametrize(
    ("before", "after", "means"),
    [
        ("output = { tokens_max = 100 }", "output = { tokens_max = 99 }", "stricter"),
        ("output = { tokens_max = 100 }", "output = { tokens_max = 101 }", "looser"),
        ("prompt = { tokens_max = 100 }", "prompt = { tokens_max = 99 }", "stricter"),
        ("output = { choices_max = 1 }", "output = { choices_max = 2 }", "looser"),
        ("", "output = { tokens_max = 100 }", "stricter"),
        ("output = { tokens_max = 100 }", "", "looser"),
        ('mode = "observe"', "", "stricter"),
        ("", 'mode = "observe"', "looser"),
        ("", "objectives = { window_days = 7, success = 0.9 }", ""),
        ('accounts = ["a"]', 'accounts = ["b"]', ""),
        ('tools.default = "allow"', 'tools.default = "deny"', "stricter"),
        (DENY, f'{DENY}\ntools.allow = ["grep"]', "looser"),
        (f'{DENY}\ntools.allow = ["a", "b"]', f'{DENY}\ntools.allow = ["b"]', "stricter"),
        (f'{DENY}\ntools.allow = ["a"]', f'{DENY}\ntools.allow = ["b"]', ""),
        (DENY, f'{DENY}\ntools.deny = ["a*"]', "stricter"),
        (DENY, f'{DENY}\ntools.text_calls = "leave"', "looser"),
        (DENY, f'{DENY}\ntools.offered = "refuse"', ""),
    ],
)
def test_a_difference_says_whether_more_or_less_is_allowed(
    before: str, after: str, means: str
) -> None:
    (change,) = changes(TOP + before, TOP + after)
    assert {each.means for each in change.differences} == {means}


def test_a_difference_names_its_key_and_both_values() -> None:
    other = MODELS.replace('"small"', '"other"')
    assert only(TOP + MODELS, TOP + other) == Difference("models.class.extract", "small", "other")
    assert only(TOP + MODELS, f'{TOP}{MODELS}asked = "refuse"') == Difference(
        "models.asked", "obey", "refuse"
    )


def test_rules_are_one_value_because_their_order_counts() -> None:
    one = '{ class = "extract", when = { tools = 0 } }'
    two = '{ class = "look", when = { images = true } }'
    difference = only(f"{TOP}{MODELS}rule = [{one}, {two}]", f"{TOP}{MODELS}rule = [{two}, {one}]")
    assert difference.key == "models.rule"
    assert difference.before == (
        '[{"class":"extract","when":{"tools":0}},{"class":"look","when":{"images":true}}]'
    )
    assert difference.means == ""
