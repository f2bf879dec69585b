"""Describes models for people: a row of the list, and every fact of one of them."""

from datetime import date
from decimal import Decimal
from typing import Final

import msgspec

from penstock.cli.dollars import exact_usd
from penstock.cli.running_models import States
from penstock.cli.table import Column, Columns
from penstock.records.model import Model
from penstock.records.price import ONCE, Prices

_NANO: Final = 10**9
MODEL_COLUMNS: Columns = (
    *("id", "runs"),
    Column("context", is_right=True),
    Column("GPUs", is_right=True, is_optional=True),
    # Dollars for a million tokens.
    "$ in cached out",
    *(Column(title, is_optional=True) for title in ("aliases", "family", "can")),
)


def plain_model(record: msgspec.Struct) -> dict[str, object]:
    return {
        key: msgspec.to_builtins(value)
        for key, value in msgspec.structs.asdict(record).items()
        if value is not msgspec.UNSET
    }


def model_row(model: Model, today: date, replicas: States | None) -> tuple[str, ...]:
    """Return a row for `MODEL_COLUMNS`; `replicas` is None where no cell was asked."""
    prices = model.prices_on(today)
    each = (
        prices.input_nanousd_per_mtok,
        prices.cached_input_nanousd_per_mtok,
        prices.output_nanousd_per_mtok,
    )
    return (
        model.id,
        ", ".join(f"{count} {state}" for state, count in sorted((replicas or {}).items())),
        f"{model.context_tokens:,}",
        str(model.recipe.gpus),
        " ".join(f"{price / _NANO:.3g}" for price in each),
        ", ".join(model.aliases),
        model.family,
        ", ".join(sorted(model.capabilities)),
    )


def model_facts(model: Model) -> list[tuple[str, str]]:
    """Return what `show` prints: the entry's fields, its prices in dollars, and its recipe."""
    facts = []
    for key, value in plain_model(model).items():
        if key == "prices":
            facts += [("price", _price_line(row)) for row in model.prices]
        elif key != "recipe":
            facts.append((key, _text(value)))
    facts += [(f"recipe.{key}", _text(value)) for key, value in plain_model(model.recipe).items()]
    return [(key, text) for key, text in facts if text]


def _price_line(row: Prices) -> str:
    """Return one row of the price book in words, per million tokens."""
    prices = (
        f"{_usd(row.input_nanousd_per_mtok)} input",
        f"{_usd(row.cached_input_nanousd_per_mtok)} cached",
        f"{_usd(row.output_nanousd_per_mtok)} output",
    )
    parts = {"now": row.now_bp, "flex": row.flex_bp, "batch": row.batch_bp}
    tiers = [f"{tier} x {bp / ONCE:g}" for tier, bp in parts.items() if bp != ONCE]
    since = f"from {row.valid_from}: " if row.valid_from else ""
    return f"{since}{', '.join(prices)} for a million tokens; {', '.join(tiers)}".rstrip("; ")


def _usd(nanousd: int) -> str:
    return exact_usd(Decimal(nanousd).scaleb(-9))


def _text(value: object) -> str:
    if isinstance(value, list | tuple):
        return " ".join(str(item) for item in value)
    if isinstance(value, dict):
        return " ".join(f"{key}={item}" for key, item in value.items())
    return str(value)
