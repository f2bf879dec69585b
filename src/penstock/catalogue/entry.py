"""Parses one TOML text into a Model, and checks what the Model's types cannot express.

Returns a Model that can be served, or raises CatalogueError. Reads no files.
"""

import re
import tomllib
from decimal import Decimal
from typing import Any

import msgspec

from penstock.catalogue.advice import check_prices, explain
from penstock.catalogue.dollar_prices import convert_dollars
from penstock.catalogue.entry_error import CatalogueError
from penstock.catalogue.names import DEFAULT_NAME, fault_in
from penstock.catalogue.recipes import SAMPLE_VALUES, fill
from penstock.catalogue.weight_source import fault_in_source
from penstock.records.dialect import DIALECTS
from penstock.records.model import Model, Recipe

_LINE = re.compile(r"\(at line (\d+), column \d+\)")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def read_entry(text: str) -> Model:
    """Return the model in `text`. Errors name the key or line; the caller adds the file."""
    document = _parse(text)
    _lay_out_prices(document)
    try:
        model = msgspec.convert(document, Model)
    except msgspec.ValidationError as error:
        raise explain(str(error), document) from None
    check_prices(model.prices)
    _check_names(model)
    _check_recipe(model.recipe)
    _check_output_tokens(model)
    served_name = model.recipe.served_name or model.id
    recipe = msgspec.structs.replace(model.recipe, served_name=served_name)
    return msgspec.structs.replace(model, recipe=recipe)


def _parse(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text, parse_float=Decimal)
    # Numbers with thousands of digits raise ValueError; very deep nesting raises RecursionError.
    except (ValueError, RecursionError) as error:
        found = _LINE.search(str(error))
        raise CatalogueError(
            f"this is not TOML: {error}",
            advice='Write `key = value` lines; text in double quotes, lists as ["a", "b"]',
            line=int(found[1]) if found else None,
        ) from None


def _lay_out_prices(document: dict[str, Any]) -> None:
    # One row is written [prices], several [[prices]].
    if isinstance(document.get("prices"), dict):
        document["prices"] = [document["prices"]]
    prices = document.get("prices")
    rows = prices if isinstance(prices, list) else []
    for index, row in enumerate(rows):
        if not isinstance(row, dict):
            continue
        convert_dollars(row, "prices" if len(rows) == 1 else f"prices[{index}]")
        # The record's default is 0, so a row without this key would make cached tokens free.
        if "input_nanousd_per_mtok" in row:
            row.setdefault("cached_input_nanousd_per_mtok", row["input_nanousd_per_mtok"])


def _check_names(model: Model) -> None:
    seen: set[str] = set()
    for key, name in [("id", model.id), *(("aliases", alias) for alias in model.aliases)]:
        fault = "it is there already" if name in seen else fault_in(name)
        seen.add(name)
        if fault:
            raise CatalogueError(
                f"{name[:64]!r} cannot be a model's name: {fault}",
                advice="Write a name like @cf/moonshotai/kimi-k2.5 or kimi",
                key=key,
            )
        if name == DEFAULT_NAME:
            raise CatalogueError(
                f"`{DEFAULT_NAME}` stands for the installation's own choice",
                advice="Choose another name, and set default_model under [catalogue] to it",
                key=key,
            )


def _check_recipe(recipe: Recipe) -> None:
    if recipe.dialect not in DIALECTS:
        raise CatalogueError(
            f"{recipe.dialect!r} is not a dialect",
            advice=f"Write one of: {', '.join(DIALECTS)}",
            key="recipe.dialect",
        )
    for name, value in recipe.environment.items():
        if not _VARIABLE.fullmatch(name) or "\0" in value:
            raise CatalogueError(
                "the environment cannot hold this",
                advice='Write NAME = "value", the name in letters, digits and underscores',
                key=f"recipe.environment.{name}",
            )
    if any("\0" in argument for argument in recipe.command):
        raise CatalogueError(
            "an argument holds a zero byte", advice="Take it out", key="recipe.command"
        )
    if not any("{port}" in argument for argument in recipe.command):
        raise CatalogueError(
            "no argument holds {port}, so that nobody would know where the engine listens",
            advice='Write it where the engine takes its port: "--port", "{port}"',
            key="recipe.command",
        )
    # Filling with dummy values raises CatalogueError if the recipe has an unknown placeholder.
    fill(recipe, msgspec.structs.replace(SAMPLE_VALUES, weights=_check_weights(recipe)))


def _check_weights(recipe: Recipe) -> str:
    """Refuse a wrong source; return a sample of the weights' folder, "" where there is none."""
    if not recipe.weights:
        return ""
    fault = fault_in_source(recipe.weights.source)
    if fault:
        raise CatalogueError(
            f"{recipe.weights.source[:100]!r} is not a source of weights: {fault}",
            advice="Write hf:owner/name, hf:owner/name@revision, s3://bucket/prefix, or a folder"
            " such as /mnt/models/kimi",
            key="recipe.weights.source",
        )
    return "/"


def _check_output_tokens(model: Model) -> None:
    if model.default_output_tokens >= model.context_tokens:
        raise CatalogueError(
            f"{model.default_output_tokens} leaves no room for a prompt in a context of "
            f"{model.context_tokens} tokens",
            advice=f"Write less, for example {max(1, model.context_tokens // 4)}",
            key="default_output_tokens",
        )
