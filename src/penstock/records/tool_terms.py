"""What a contract says of tools, compiled: the verdict on a name, and what becomes of a call."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from penstock.records import name_patterns

# Longer names are forbidden: no client has such tools, and each is matched with every pattern.
NAME_CHARACTERS_MAX: Final = 256
_SHOWN_CHARACTERS_MAX: Final = 128
_NO_NAMES: Final[Mapping[str, str]] = {}


class ToolRules:
    """Patterns of tools that are allowed and denied, the stronger first.

    The longest pattern that matches a name counts; of equals, deny before allow.
    """

    def __init__(
        self, *, is_default_allowed: bool, allow: Sequence[str], deny: Sequence[str]
    ) -> None:
        self.is_default_allowed: Final = is_default_allowed
        # What agents may be told to use instead.
        self.allow: Final = tuple(sorted(allow))
        rules = [(pattern, True) for pattern in allow] + [(pattern, False) for pattern in deny]
        rules.sort(key=lambda rule: (-len(rule[0]), rule[1], rule[0]))
        self._rules: Final = [
            (name_patterns.normal(pattern), is_allowed) for pattern, is_allowed in rules
        ]
        self._shown: Final = [pattern for pattern, _ in rules]
        expressions = [f"({name_patterns.expression_of(pattern)})\\Z" for pattern, _ in self._rules]
        # One expression: a request may offer thousands of tools.
        self._matches: Final = re.compile("|".join(expressions) or r"(?!)", re.DOTALL).match

    def allows(self, name: str) -> bool:
        at = self._strongest(name)
        return self.is_default_allowed if at < 0 else self._rules[at][1]

    def rule_against(self, name: str) -> str:
        """Return the line of the contract by which a name is forbidden."""
        at = self._strongest(name)
        return 'default = "deny"' if at < 0 else f'deny = ["{self._shown[at]}"]'

    def forbids_all(self, pattern: str) -> bool:
        """Return whether every name of a pattern is surely forbidden."""
        wanted = name_patterns.normal(pattern)
        for rule, is_allowed in self._rules:
            if is_allowed and name_patterns.overlaps(rule, wanted):
                return False
            if not is_allowed and name_patterns.covers(rule, wanted):
                return True
        return not self.is_default_allowed

    def _strongest(self, name: str) -> int:
        """Return the place of the rule that counts for a name; -1 if none matches it."""
        match = self._matches(name_patterns.normal(name))
        return -1 if match is None or match.lastindex is None else match.lastindex - 1


class ToolTerms:
    """The terms of one request: the rules, and what happens to a call that they forbid.

    `names` has the names by which rules know the functions of tools that run here.
    """

    def __init__(
        self,
        rules: ToolRules,
        label: str,
        *,
        is_observed: bool,
        is_noted: bool,
        denies_text_calls: bool,
        names: Mapping[str, str] = _NO_NAMES,
    ) -> None:
        self.rules: Final = rules
        # The contract with its version, such as `code-review@7`.
        self.label: Final = label
        self.is_observed: Final = is_observed
        # Whether a forbidden call is replaced by a sentence, where the API allows that.
        self.is_noted: Final = is_noted
        self.denies_text_calls: Final = denies_text_calls
        self._names: Final = names

    def named(self, names: Mapping[str, str]) -> "ToolTerms":
        """Return these terms for a request whose functions have these other names in rules."""
        return ToolTerms(
            self.rules,
            self.label,
            is_observed=self.is_observed,
            is_noted=self.is_noted,
            denies_text_calls=self.denies_text_calls,
            names=names,
        )

    def name_of(self, function: str) -> str:
        """Return the name by which rules know a function."""
        return self._names.get(function, function)

    def allows(self, name: str) -> bool:
        """Return whether a tool may be called, by the name that the model or the caller gives."""
        return len(name) <= NAME_CHARACTERS_MAX and self.rules.allows(self.name_of(name))

    def forbids(self, name: str) -> bool:
        """Return whether a tool that runs here may not run. An observed one may."""
        return not (self.is_observed or self.allows(name))

    def why_forbidden(self, name: str) -> str:
        """Return a sentence that names contract and rule."""
        if len(name) > NAME_CHARACTERS_MAX:
            rule = f"names have at most {NAME_CHARACTERS_MAX} characters"
        else:
            rule = f"`{self.rules.rule_against(self.name_of(name))}`"
        return f"The contract {self.label} forbids the tool `{shown_name(name)}` ({rule})."


def mcp_name(label: str, tool: str) -> str:
    """Return the name by which rules know a tool of an MCP server."""
    return f"mcp__{label}__{tool}"


def shown_name(name: str) -> str:
    """Return a name that a model wrote as it may stand in a message or in the log."""
    shown = "".join([each if each.isprintable() else "?" for each in name[:_SHOWN_CHARACTERS_MAX]])
    return shown.replace("`", "'")
