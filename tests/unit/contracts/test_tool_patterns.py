"""The longest pattern that matches a name counts, and what can never count is refused."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.contracts.contract_samples import TOP

from penstock.contracts.contract_error import ContractError
from penstock.contracts.document import ToolTable, ToolVerdict
from penstock.contracts.reading import read_contract
from penstock.contracts.tool_rules import check_tools, tool_terms_of
from penstock.records.name_patterns import covers, overlaps
from penstock.records.tool_terms import NAME_CHARACTERS_MAX, ToolRules, ToolTerms

PATTERNS = st.text(alphabet="ab*", min_size=1, max_size=4)
LISTS = st.frozensets(PATTERNS, max_size=3)
NAMES = ["".join(each) for size in range(6) for each in itertools.product("abc", repeat=size)]


def rules(default: str, allow: tuple[str, ...] = (), deny: tuple[str, ...] = ()) -> ToolRules:
    return ToolRules(is_default_allowed=default == "allow", allow=allow, deny=deny)


def terms(tools: str) -> ToolTerms:
    found = tool_terms_of(read_contract(f"{TOP}[tools]\n{tools}"), "w@1")
    assert found is not None
    return found


def matched(pattern: str, name: str) -> bool:
    """The plain definition of a pattern."""
    if not pattern:
        return not name
    if pattern[0] == "*":
        return matched(pattern[1:], name) or (bool(name) and matched(pattern, name[1:]))
    return bool(name) and name[0] == pattern[0] and matched(pattern[1:], name[1:])


def verdict(table: ToolTable, name: str) -> ToolVerdict:
    """The plain definition of a verdict."""
    found = [
        (len(pattern), kind is ToolVerdict.DENY, kind)
        for kind, patterns in ((ToolVerdict.ALLOW, table.allow), (ToolVerdict.DENY, table.deny))
        for pattern in patterns
        if matched(pattern, name)
    ]
    return max(found)[2] if found else table.default


@given(st.sampled_from(ToolVerdict), LISTS, LISTS)
@settings(max_examples=60, deadline=None)
def test_verdicts_follow_their_plain_definition(
    default: ToolVerdict, allow: frozenset[str], deny: frozenset[str]
) -> None:
    table = ToolTable(default=default, allow=allow, deny=deny)
    compiled = rules(default, tuple(allow), tuple(deny))
    for name in NAMES:
        assert compiled.allows(name) == (verdict(table, name) is ToolVerdict.ALLOW), name


@given(st.sampled_from(ToolVerdict), LISTS, LISTS)
@settings(max_examples=60, deadline=None)
def test_what_check_lets_pass_changes_some_verdict(
    default: ToolVerdict, allow: frozenset[str], deny: frozenset[str]
) -> None:
    table = ToolTable(default=default, allow=allow, deny=deny, text_calls="deny")  # type: ignore[arg-type]
    try:
        check_tools(table)
    except ContractError:
        return
    alone = [p for p in (*allow, *deny) if not any(overlaps(p, o) for o in allow | deny if o != p)]
    for pattern in alone:
        less = ToolTable(default=default, allow=allow - {pattern}, deny=deny - {pattern})
        assert any(verdict(table, name) is not verdict(less, name) for name in NAMES), pattern


@given(PATTERNS, PATTERNS)
@settings(max_examples=150, deadline=None)
def test_patterns_cover_and_overlap_as_their_names_do(one: str, other: str) -> None:
    ours = {name for name in NAMES if matched(one, name)}
    theirs = {name for name in NAMES if matched(other, name)}
    if covers(one, other):
        assert theirs <= ours
    if ours & theirs:
        assert overlaps(one, other)
    if len(one) + len(other) <= 5:
        assert overlaps(one, other) == bool(ours & theirs)


@given(st.sampled_from(ToolVerdict), LISTS, LISTS, PATTERNS)
@settings(max_examples=150, deadline=None)
def test_a_server_is_forbidden_only_if_all_of_its_tools_are(
    default: ToolVerdict, allow: frozenset[str], deny: frozenset[str], server: str
) -> None:
    compiled = rules(default, tuple(allow), tuple(deny))
    if compiled.forbids_all(server):
        assert not any(compiled.allows(name) for name in NAMES if matched(server, name))


@pytest.mark.parametrize(
    ("default", "allow", "deny", "is_forbidden"),
    [
        ("deny", (), (), True),
        ("deny", ("mcp__docs__find",), (), False),
        ("deny", ("mcp__other__*",), (), True),
        ("deny", ("mcp__*",), ("mcp__docs__*",), True),
        ("allow", (), ("mcp__docs__*",), True),
        ("allow", (), ("mcp__docs__drop",), False),
        ("allow", ("mcp__docs__find_*",), ("mcp__docs__*",), False),
    ],
)
def test_whether_a_server_has_any_tool_left(
    default: str, allow: tuple[str, ...], deny: tuple[str, ...], is_forbidden: bool
) -> None:
    assert rules(default, allow, deny).forbids_all("mcp__docs__*") is is_forbidden


def test_a_name_that_is_too_long_is_forbidden_whatever_the_rules_say() -> None:
    found = terms('default = "allow"\ndeny = ["bash"]')
    assert found.allows("x" * NAME_CHARACTERS_MAX)
    assert not found.allows("x" * (NAME_CHARACTERS_MAX + 1))
    assert "at most 256 characters" in found.why_forbidden("x" * 300)


def test_many_names_are_judged_fast() -> None:
    patterns = tuple(f"tool_{number}_*_x*" for number in range(200))
    compiled = rules("deny", patterns, tuple(f"no_{each}" for each in patterns))
    assert not any(compiled.allows("tool_" * 50) for _ in range(1000))


@pytest.mark.parametrize(
    ("tools", "key", "problem"),
    [
        ('default = "deny"\nallow = ["a", "b"]\ndeny = ["B"]', "tools.allow", "are equal"),
        ('default = "allow"\ndeny = ["a*", "ab*"]', "tools.deny", "matches the same"),
        ('default = "allow"\nallow = ["*ab*"]\ndeny = ["ab"]', "tools.deny", "never counts"),
        ('default = "allow"\nallow = ["ab"]', "tools.allow", "says the same"),
        ('default = "deny"\nallow = ["a*"]\ndeny = ["b"]', "tools.deny", "says the same"),
        ('default = "allow"\ntext_calls = "leave"', "tools.default", "forbids nothing"),
        ('default = "deny"\nallow = ["a(b|c)"]', "tools.allow", "matches no tool"),
    ],
)
def test_what_can_never_take_effect_is_refused(tools: str, key: str, problem: str) -> None:
    table = read_contract(f"{TOP}[tools]\n{tools}").tools
    assert table is not None
    with pytest.raises(ContractError) as caught:
        check_tools(table)
    assert caught.value.key == key
    assert problem in caught.value.problem


def test_a_regular_expression_is_refused_with_the_pattern_to_write() -> None:
    table = read_contract(f'{TOP}[tools]\ndefault = "deny"\nallow = ["grep", "^read_.*$"]').tools
    assert table is not None
    with pytest.raises(ContractError, match=r"matches no tool") as caught:
        check_tools(table)
    assert caught.value.advice == 'Write allow = ["grep", "read_*"]'


@pytest.mark.parametrize(
    "tools",
    [
        'default = "deny"',
        'default = "allow"',
        'default = "deny"\nallow = ["*"]\ndeny = ["bash"]',
        'default = "deny"\nallow = ["read_*", "read_secret_hint"]\ndeny = ["read_secret*"]',
        'default = "allow"\ndeny = ["mcp__*"]\nallow = ["mcp__docs__*"]',
    ],
)
def test_what_takes_effect_passes(tools: str) -> None:
    table = read_contract(f"{TOP}[tools]\n{tools}").tools
    assert table is not None
    check_tools(table)
