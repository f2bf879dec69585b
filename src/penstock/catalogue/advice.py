"""Translates msgspec's validation errors about an entry into advice for the operator."""

import re
from collections.abc import Iterable, Sized
from decimal import Decimal
from typing import Any

import msgspec

from penstock.catalogue.close_names import closest
from penstock.catalogue.dollar_prices import DOLLARS_MAX
from penstock.catalogue.entry_error import CatalogueError
from penstock.records.model import Capability, Family, Model, Recipe, Weights
from penstock.records.price import Prices

TABLES: dict[str, type[msgspec.Struct]] = {
    "": Model,
    "recipe": Recipe,
    "recipe.weights": Weights,
    "prices": Prices,
}

# A smaller price must have been written in dollars or cents: 1000 nano-dollars is $0.000001.
PRICE_NANOUSD_MIN = 1000
_PRICE = re.compile(r"prices\[(\d+)\](?:\.(\w+))?")
_PER_MTOK = "_nanousd_per_mtok"
_VALID_FROM = (
    "Write [[prices]] rows oldest first: the first without valid_from, each later one with a date"
    " after the one before, such as valid_from = 2027-01-01"
)
_MULTIPLIER = "Write basis points: 10000 is once, 5000 is half"

# A correct example line for each key, used where no more specific advice exists.
EXAMPLES = {
    "id": 'id = "@cf/moonshotai/kimi-k2.5"',
    "family": 'family = "openai"',
    "context_tokens": "context_tokens = 131072",
    "recipe": '[recipe] and, below it, command = ["vllm", "serve", "…", "--port", "{port}"]',
    "aliases": 'aliases = ["kimi"]',
    "description": 'description = "What it is good at"',
    "task": 'task = "Text Generation"',
    "capabilities": 'capabilities = ["tools", "structured_output"]',
    "prices": "[prices] and, below it, input_usd_per_mtok = 0.60",
    "default_output_tokens": "default_output_tokens = 4096",
    "image_tokens_max": "image_tokens_max = 4096",
    "allowed_accounts": 'allowed_accounts = ["team-a"]',
    "reasoning_field": 'reasoning_field = "reasoning_content"',
    "responses": 'responses = "chat"',
    "python_pattern": "python_pattern = 'print\\([0-9]+\\*[0-9]+\\)'",
    "recipe.command": 'command = ["vllm", "serve", "…", "--port", "{port}"]',
    "recipe.environment": 'environment = { OMP_NUM_THREADS = "1" }',
    "recipe.served_name": 'served_name = "@cf/moonshotai/kimi-k2.5"',
    "recipe.dialect": 'dialect = "vllm"',
    "recipe.gpus": "gpus = 8",
    "recipe.hosts": "hosts = 1",
    "recipe.part_arguments": 'part_arguments = ["--headless"]',
    "recipe.slots_live": "slots_live = 256",
    "recipe.start_seconds_max": "start_seconds_max = 3600",
    "recipe.weights": '[recipe.weights] and, below it, source = "hf:owner/name"',
    "recipe.weights.source": 'source = "hf:owner/name"',
    "recipe.weights.gigabytes": "gigabytes = 59.0",
}


def explain(complaint: str, document: dict[str, Any]) -> CatalogueError:
    """Return the error to raise for `complaint`, msgspec's ValidationError about `document`."""
    problem, found, path = complaint.rpartition(" - at `$")
    if not found:
        problem, path = complaint, ""
    path = path.strip("`.")
    priced = _PRICE.fullmatch(path)
    if priced is not None:
        return _about_price(problem, document["prices"], int(priced[1]), priced[2] or "")
    if problem.startswith("Object contains unknown field"):
        return _unknown_key(path, problem.split("`", 1)[1][:-1])
    if problem.startswith("Object missing required field"):
        key = _join(path, problem.split("`")[1])
        return CatalogueError("is missing", advice=f"Write {EXAMPLES[key]}", key=key)
    if problem.startswith("Invalid enum value"):
        return _unknown_value(path, problem)
    if path.startswith("recipe.environment["):
        return _number_in_environment(document["recipe"]["environment"])
    key = path.split("[")[0]
    return CatalogueError(_lower_first(problem), advice=f"Write {EXAMPLES[key]}", key=path)


def check_prices(book: tuple[Prices, ...]) -> None:
    """Refuse integer prices that must be dollars, and a price book whose rows are not in order."""
    if not book:
        raise CatalogueError("has no row", advice=f"Write {EXAMPLES['prices']}", key="prices")
    for index, prices in enumerate(book):
        for name, value in msgspec.structs.asdict(prices).items():
            if name.endswith(_PER_MTOK) and 0 < value < PRICE_NANOUSD_MIN:
                raise _wrong_price(_price_key(book, index, name), value)
        before = book[index - 1].valid_from if index else None
        is_later = prices.valid_from is not None and (before is None or prices.valid_from > before)
        if is_later != bool(index):
            key = _price_key(book, index, "valid_from")
            raise CatalogueError("is not in order", advice=_VALID_FROM, key=key)


def _about_price(problem: str, book: list[Any], index: int, name: str) -> CatalogueError:
    key = _price_key(book, index, name)
    if problem.startswith("Object contains unknown field"):
        unknown = _unknown_key("prices", problem.split("`", 1)[1][:-1])
        return CatalogueError("is not a key", advice=unknown.advice, key=unknown.key)
    if name.endswith(_PER_MTOK):
        return _wrong_price(key, book[index][name])
    advice = {"valid_from": _VALID_FROM, "": f"Write {EXAMPLES['prices']}"}.get(name, _MULTIPLIER)
    return CatalogueError(_lower_first(problem), advice=advice, key=key)


def _price_key(book: Sized, index: int, name: str) -> str:
    row = "prices" if len(book) == 1 else f"prices[{index}]"
    return _join(row, name) if name else row


def _unknown_key(path: str, key: str) -> CatalogueError:
    names = _keys_of(path)
    elsewhere = [table for table in TABLES if table != path and key in _keys_of(table)]
    close = closest(key, names)
    if elsewhere:
        table = f"under [{elsewhere[0]}]" if elsewhere[0] else "above the first [table]"
        advice = f"`{key}` belongs {table}"
    elif close:
        advice = f"Did you mean `{close[0]}`?"
    else:
        advice = f"The keys here are: {_listed(names)}"
    return CatalogueError("is not a key", advice=advice, key=_join(path, key))


def _unknown_value(path: str, problem: str) -> CatalogueError:
    values = [*Family] if path == "family" else [*Capability]
    value = problem.removeprefix("Invalid enum value ")
    close = closest(value.strip("'"), values)
    hint = f'Did you mean "{close[0]}"? ' if close else ""
    what = "a family" if path == "family" else "a capability"
    return CatalogueError(
        f"{value} is not {what}", advice=f"{hint}Write one of: {_listed(values)}", key=path
    )


def _number_in_environment(environment: dict[str, Any]) -> CatalogueError:
    name, value = next(item for item in environment.items() if not isinstance(item[1], str))
    return CatalogueError(
        f"expected text, got `{type(value).__name__}`",
        advice=f'Write it in quotes: {name} = "{value}"',
        key=f"recipe.environment.{name}",
    )


def _wrong_price(key: str, value: object) -> CatalogueError:
    # Whoever writes a small number here means dollars.
    is_number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    meant = Decimal(str(value)) if is_number else Decimal("NaN")
    dollars = meant if meant.is_finite() and 0 < meant < DOLLARS_MAX else Decimal("0.60")
    name = key.rpartition(".")[2].replace("nanousd", "usd")
    advice = f"Write dollars, {name} = {dollars:f}, or integer nano-dollars, {int(dollars * 10**9)}"
    shown = str(value) if isinstance(value, Decimal) else repr(value)
    return CatalogueError(f"{shown} is not a price", advice=advice, key=key)


def _keys_of(path: str) -> list[str]:
    return [field.name for field in msgspec.structs.fields(TABLES[path])]


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]
