"""Translates msgspec's validation errors about a contract into advice for its author."""

import re
from typing import Any, Final, get_args

import msgspec

from penstock.catalogue.close_names import closest
from penstock.contracts.contract_error import ContractError
from penstock.contracts.document import (
    Amounts,
    ApiName,
    AskedModel,
    Budget,
    ClassRule,
    Contract,
    Fallback,
    FirstToken,
    ForbiddenCall,
    Mode,
    ModelTerms,
    Objectives,
    OfferedTools,
    OutputTerms,
    PromptTerms,
    TextCalls,
    ToolOutputTerms,
    ToolTable,
    ToolVerdict,
    When,
)

# Of a usual request of an agent.
_REQUEST_TOKENS: Final = 10_000
_PERIODS: Final = ("minute", "day", "month")
TABLES: Final[dict[str, type[msgspec.Struct]]] = {
    "": Contract,
    "prompt": PromptTerms,
    "output": OutputTerms,
    "tool_output": ToolOutputTerms,
    "objectives": Objectives,
    "objectives.first_token_ms": FirstToken,
    "models": ModelTerms,
    "models.rule": ClassRule,
    "models.rule.when": When,
    "budget": Budget,
    "budget.session": Amounts,
    "budget.fallback": Fallback,
    "tools": ToolTable,
}


def _amounts(table: str, requests: tuple[int, int, int], usd: str) -> dict[str, str]:
    """Return a line for each amount of a table: by minute, day and month."""
    lines = {}
    for period, amount in zip(_PERIODS, requests, strict=True):
        for measure, each in (("requests", amount), ("tokens", amount * _REQUEST_TOKENS)):
            lines[f"{table}.{measure}_per_{period}"] = f"{measure}_per_{period} = {each:_}"
    for period in _PERIODS[1:]:
        lines[f"{table}.usd_per_{period}"] = f'usd_per_{period} = "{usd}"'
    return lines


# A correct line for each key, for where no more specific advice exists.
EXAMPLES: Final = {
    "schema": "schema = 1",
    "name": 'name = "code-review"',
    "accounts": 'accounts = ["*"]',
    "mode": 'mode = "observe"',
    "prompt": "prompt = { tokens_max = 200_000 }",
    "prompt.tokens_max": "tokens_max = 200_000",
    "output": "output = { tokens_max = 4096 }",
    "output.tokens_max": "tokens_max = 4096",
    "output.choices_max": "choices_max = 1",
    "tool_output": "tool_output = { bytes_max = 16_384 }",
    "tool_output.bytes_max": "bytes_max = 16_384",
    "tool_output.tail_share": "tail_share = 0.4",
    "tool_output.exempt": 'exempt = ["read_exact*"]',
    "objectives": "objectives = { success = 0.995 }",
    "objectives.first_token_ms": "first_token_ms = { p95 = 2000 }",
    "objectives.first_token_ms.p50": "p50 = 500",
    "objectives.first_token_ms.p95": "p95 = 2000",
    "objectives.first_token_ms.p99": "p99 = 8000",
    "objectives.success": "success = 0.995",
    "objectives.recovered": "recovered = 0.99",
    "objectives.window_days": "window_days = 28",
    "models": 'models = { default = "kimi-k2.5" }',
    "models.default": 'default = "kimi-k2.5"',
    "models.class": 'class = { extract = "gpt-oss-20b" }',
    "models.asked": 'asked = "obey"',
    "models.rule": 'rule = [{ class = "extract", when = { tools = 0 } }]',
    "models.rule.class": 'class = "extract"',
    "models.rule.when": "when = { tools = 0 }",
    "models.rule.when.api": 'api = "chat"',
    "models.rule.when.stream": "stream = false",
    "models.rule.when.tools": "tools = 0",
    "models.rule.when.tools_min": "tools_min = 1",
    "models.rule.when.tools_max": "tools_max = 8",
    "models.rule.when.tool": 'tool = "fetch*"',
    "models.rule.when.structured": "structured = true",
    "models.rule.when.images": "images = false",
    "models.rule.when.opening_bytes_min": "opening_bytes_min = 40_000",
    "models.rule.when.opening_bytes_max": "opening_bytes_max = 40_000",
    "models.rule.when.output_tokens_min": "output_tokens_min = 1024",
    "models.rule.when.output_tokens_max": "output_tokens_max = 64",
    "models.rule.when.reasoning_effort": 'reasoning_effort = "low"',
    "models.rule.when.key": 'key = "ci-runner"',
    "models.rule.when.model": 'model = "kimi-k2.5"',
    "critical": "critical = false",
    "budget": 'budget = { usd_per_day = "25.00" }',
    **_amounts("budget", (600, 5_000, 100_000), "25.00"),
    "budget.session": 'session = { usd_per_day = "2.50" }',
    **_amounts("budget.session", (60, 300, 5_000), "2.50"),
    "budget.fallback": 'fallback = { model = "gpt-oss-20b" }',
    "budget.fallback.model": 'model = "gpt-oss-20b"',
    "budget.fallback.left_share_min": "left_share_min = 0.1",
    "tools": 'tools = { default = "deny", allow = ["read_file"] }',
    "tools.default": 'default = "deny"',
    "tools.allow": 'allow = ["read_file", "mcp__github__get_*"]',
    "tools.deny": 'deny = ["bash"]',
    "tools.offered": 'offered = "strip"',
    "tools.on_forbidden": 'on_forbidden = "error"',
    "tools.text_calls": 'text_calls = "deny"',
}
# Keys of the contract that will come to exist: better said than called unknown.
_NOT_YET: Final = {
    "": ("persist", "checkpoint", "shadow", "privacy"),
    "output": ("seed",),
    "models.rule.when": ("family",),
    "tools": ("approve", "destination", "approval"),
}  # fmt: skip
_VALUE_NOT_YET: Final = {"tools.default": "approve"}
_VALUES: Final = {
    "mode": [*Mode],
    "models.asked": [*AskedModel],
    "models.rule.when.api": [*get_args(ApiName)],
    "tools.default": [*ToolVerdict],
    "tools.offered": [*OfferedTools],
    "tools.on_forbidden": [*ForbiddenCall],
    "tools.text_calls": [*TextCalls],
}
_INDEX: Final = re.compile(r"\[[^\]]*\]")
# Where a complaint ends; "`key` in" is before a name in a table of names.
_PLACE: Final = re.compile(r"(.*) - at (?:`key` in )?`\$\.?(.*)`", re.DOTALL)


def explain(complaint: str, document: dict[str, Any]) -> ContractError:
    """Return the error to raise for `complaint`, msgspec's ValidationError about `document`."""
    place = _PLACE.fullmatch(complaint)
    problem, path = (place[1], place[2]) if place else (complaint, "")
    # msgspec does not say which of a table's names it means.
    path = path.replace("[...]", "")
    plain = _INDEX.sub("", path)
    if problem.startswith("Object contains unknown field"):
        return _unknown_key(path, plain, problem.split("`", 1)[1][:-1])
    if problem.startswith("Object missing required field"):
        name = problem.split("`")[1]
        return _wrong(join(path, name), join(plain, name), "is missing")
    if plain == "schema" and document.get("schema") != 1:
        return _wrong(path, plain, "is a form that this program cannot read")
    if problem.startswith("Invalid enum value"):
        return _unknown_value(path, plain, problem)
    return _wrong(path, plain, _lower_first(problem))


def join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _wrong(path: str, plain: str, problem: str) -> ContractError:
    return ContractError(problem, advice=f"Write {EXAMPLES[plain]}", key=path)


def _unknown_value(path: str, plain: str, problem: str) -> ContractError:
    values, given = _VALUES[plain], problem.split("'")[1]
    if _VALUE_NOT_YET.get(plain) == given:
        return _wrong(path, plain, f'"{given}" is not available yet')
    close = closest(given, values)
    right = f'{plain.rpartition(".")[2]} = "{close[0]}"' if close else EXAMPLES[plain]
    return ContractError(
        _lower_first(problem),
        advice=f"The values are: {', '.join(values)}. Write {right}",
        key=path,
    )


def _unknown_key(path: str, plain: str, key: str) -> ContractError:
    if key in _NOT_YET.get(plain, ()):
        return ContractError(
            "is not available yet", advice="Take it out: nothing would obey it", key=join(path, key)
        )
    names = _keys_of(plain)
    elsewhere = [table for table in TABLES if table != plain and key in _keys_of(table)]
    close = closest(key, names)
    if close:
        example = EXAMPLES[join(plain, close[0])]
        advice = f"Did you mean `{close[0]}`? Write {example}"
    elif elsewhere:
        names = [f"in `{table}`" if table else "above the first [table]" for table in elsewhere]
        example = EXAMPLES[join(elsewhere[0], key)]
        advice = f"`{key}` belongs {' or '.join(names)}. There, write {example}"
    else:
        advice = f"The keys here are: {', '.join(names)}"
    return ContractError("is not a key", advice=advice, key=join(path, key))


def _keys_of(table: str) -> list[str]:
    return [field.encode_name for field in msgspec.structs.fields(TABLES[table])]


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]
