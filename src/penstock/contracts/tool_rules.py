"""Compiles a contract's `[tools]`, and refuses patterns that could never take effect. Pure."""

from typing import Final

from penstock.contracts.contract_error import ContractError
from penstock.contracts.document import (
    Contract,
    ForbiddenCall,
    Mode,
    TextCalls,
    ToolTable,
    ToolVerdict,
)
from penstock.records.name_patterns import ANY, covers, normal, overlaps
from penstock.records.tool_terms import ToolRules, ToolTerms

_Rule = tuple[str, ToolVerdict]
_DEFAULT: Final = "tools.default"
# They stand in regular expressions and shell patterns, and in no name of a tool.
_NEVER_IN_NAMES: Final = frozenset("^$|()[]{}?")


def tool_terms_of(contract: Contract, label: str) -> ToolTerms | None:
    """Return what a contract says of tools; None if it says nothing."""
    table = contract.tools
    if table is None:
        return None
    rules = ToolRules(
        is_default_allowed=table.default is ToolVerdict.ALLOW,
        allow=sorted(table.allow),
        deny=sorted(table.deny),
    )
    return ToolTerms(
        rules,
        label,
        is_observed=contract.mode is Mode.OBSERVE,
        is_noted=table.on_forbidden is ForbiddenCall.NOTE,
        denies_text_calls=table.text_calls is TextCalls.DENY,
    )


def check_tools(table: ToolTable) -> None:
    """Refuse a pattern that changes nothing, with the list to write instead."""
    if (
        table.default is ToolVerdict.ALLOW
        and not table.deny
        and not table.allow
        and table.text_calls is TextCalls.LEAVE
    ):
        raise ContractError("forbids nothing", advice='Write default = "deny"', key=_DEFAULT)
    rules = [
        (pattern, verdict)
        for verdict, patterns in ((ToolVerdict.DENY, table.deny), (ToolVerdict.ALLOW, table.allow))
        for pattern in sorted(patterns)
    ]
    # The stronger first: of equal length, deny.
    rules.sort(key=lambda rule: -len(rule[0]))
    for at, rule in enumerate(rules):
        if _NEVER_IN_NAMES & set(rule[0]):
            raise _of_another_kind(table, rule)
        fault = _twice(rules, at) or _hidden(rules[:at], rule) or _needless(rules, at, table)
        if fault:
            raise _without(table, rule, fault)


def _of_another_kind(table: ToolTable, rule: _Rule) -> ContractError:
    pattern = rule[0]
    found = min(_NEVER_IN_NAMES & set(pattern))
    plain = pattern.strip("^$").replace(".*", ANY)
    return _instead(
        table,
        rule,
        f"{pattern!r} matches no tool, by its {found!r}: only `{ANY}` stands for other characters",
        set() if _NEVER_IN_NAMES & set(plain) else {plain},
    )


def _twice(rules: list[_Rule], at: int) -> str:
    pattern, verdict = rules[at]
    for other, also in rules[:at]:
        if normal(other) == normal(pattern):
            where = f"in `{also}` too" if also is not verdict else "the same"
            written = "" if other == pattern else ": case does not count"
            return f"{pattern!r} and {other!r} are equal, and {where}{written}"
    return ""


def _hidden(stronger: list[_Rule], rule: _Rule) -> str:
    pattern = rule[0]
    for other, also in stronger:
        if covers(normal(other), normal(pattern)):
            return f"{pattern!r} never counts: {other!r} in `{also}` matches the same and is longer"
    return ""


def _needless(rules: list[_Rule], at: int, table: ToolTable) -> str:
    """Return why a pattern changes nothing: without it, all of its names have the same verdict."""
    pattern, verdict = rules[at]
    for other, also in rules[at + 1 :]:
        if also is verdict and covers(normal(other), normal(pattern)):
            return f"{pattern!r} changes nothing: {other!r} matches the same"
        if also is not verdict and overlaps(normal(other), normal(pattern)):
            return ""
    if table.default is verdict:
        return f'{pattern!r} changes nothing: default = "{verdict}" says the same'
    return ""


def _without(table: ToolTable, rule: _Rule, fault: str) -> ContractError:
    return _instead(table, rule, fault, set())


def _instead(table: ToolTable, rule: _Rule, fault: str, right: set[str]) -> ContractError:
    """Return the error, with the list to write: without this pattern, and with the right one."""
    pattern, verdict = rule
    patterns = table.allow if verdict is ToolVerdict.ALLOW else table.deny
    listed = ", ".join(f'"{each}"' for each in sorted((patterns - {pattern}) | right))
    return ContractError(fault, advice=f"Write {verdict} = [{listed}]", key=f"tools.{verdict}")
