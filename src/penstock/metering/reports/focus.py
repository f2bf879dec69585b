"""Turns a charge into a row of the FinOps Foundation's FOCUS 1.2 (Cost and Usage). Pure.

A row is for one hour, account, key, model, tier, workflow, price and kind of token.
`BilledCost` adds up to the ledger's charges exactly; `ListCost` is quantity times price, unrounded.
"""

from datetime import datetime, timedelta
from decimal import Context, Decimal
from enum import StrEnum
from typing import Final

import msgspec

from penstock.records.price import ONCE

# More digits than any product of tokens and prices has, so that nothing is rounded here.
_EXACT: Final = Context(prec=60)
_MTOK_DIGITS: Final = 6
_NANO_DIGITS: Final = 9
_ONCE_DIGITS: Final = 4
assert 10**_ONCE_DIGITS == ONCE


class Kind(StrEnum):
    """A kind of token with its own price."""

    INPUT = "input"
    CACHED_INPUT = "cached_input"
    OUTPUT = "output"


class Charge(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of one kind and the charge for them."""

    hour: datetime
    account: str
    account_name: str | None
    key: str
    model: str
    tier: str
    workflow: str
    kind: Kind
    tokens: int
    nanousd_per_mtok: int
    multiplier_bp: int
    charge_nanousd: int
    charge_reason: str


_MONEY: Final = _NANO_DIGITS
_PRICE: Final = _NANO_DIGITS + _ONCE_DIGITS
_LIST: Final = _PRICE + _MTOK_DIGITS
_TEXT: Final = "text"
_TIME: Final = "time"

# Name to type: text, a time, or a decimal with this number of digits after the point.
COLUMNS: Final[dict[str, str | int]] = {
    "BilledCost": _MONEY,
    "BillingAccountId": _TEXT,
    "BillingAccountName": _TEXT,
    "BillingAccountType": _TEXT,
    "BillingCurrency": _TEXT,
    "BillingPeriodEnd": _TIME,
    "BillingPeriodStart": _TIME,
    "ChargeCategory": _TEXT,
    "ChargeClass": _TEXT,
    "ChargeDescription": _TEXT,
    "ChargeFrequency": _TEXT,
    "ChargePeriodEnd": _TIME,
    "ChargePeriodStart": _TIME,
    "ConsumedQuantity": 0,
    "ConsumedUnit": _TEXT,
    "ContractedCost": _LIST,
    "ContractedUnitPrice": _PRICE,
    "EffectiveCost": _MONEY,
    "InvoiceIssuerName": _TEXT,
    "ListCost": _LIST,
    "ListUnitPrice": _PRICE,
    "PricingCategory": _TEXT,
    "PricingQuantity": _MTOK_DIGITS,
    "PricingUnit": _TEXT,
    "ProviderName": _TEXT,
    "PublisherName": _TEXT,
    "ResourceId": _TEXT,
    "ResourceName": _TEXT,
    "ResourceType": _TEXT,
    "ServiceCategory": _TEXT,
    "ServiceName": _TEXT,
    "ServiceSubcategory": _TEXT,
    "SkuId": _TEXT,
    "SkuPriceId": _TEXT,
    "SubAccountId": _TEXT,
    "SubAccountName": _TEXT,
    "SubAccountType": _TEXT,
    "Tags": _TEXT,
    "x_ChargeReason": _TEXT,
}

Cell = str | datetime | Decimal | None
Row = tuple[Cell, ...]

_NAME: Final = "Penstock"
_SAME_EVERYWHERE: Final[dict[str, Cell]] = {
    "BillingAccountId": "penstock",
    "BillingAccountName": _NAME,
    "BillingAccountType": "Installation",
    "BillingCurrency": "USD",
    "ChargeCategory": "Usage",
    "ChargeClass": None,
    "ChargeFrequency": "Usage-Based",
    "ConsumedUnit": "Tokens",
    "InvoiceIssuerName": _NAME,
    "PricingCategory": "Standard",
    "PricingUnit": "1000000 Tokens",
    "ProviderName": _NAME,
    "PublisherName": _NAME,
    "ResourceType": "Model",
    "ServiceCategory": "AI and Machine Learning",
    "ServiceName": "Penstock inference",
    "ServiceSubcategory": "Generative AI",
    "SubAccountType": "Account",
}


def focus_row(charge: Charge) -> Row:
    """Return the cells of a charge in the order of COLUMNS."""
    cells = _SAME_EVERYWHERE | _times(charge.hour) | _amounts(charge) | _names(charge)
    return tuple(cells[name] for name in COLUMNS)


def _times(hour: datetime) -> dict[str, Cell]:
    month = hour.replace(day=1, hour=0)
    # 32 days after the first of any month is a day of the next month.
    return {
        "BillingPeriodStart": month,
        "BillingPeriodEnd": (month + timedelta(days=32)).replace(day=1),
        "ChargePeriodStart": hour,
        "ChargePeriodEnd": hour + timedelta(hours=1),
    }


def _amounts(charge: Charge) -> dict[str, Cell]:
    price = charge.nanousd_per_mtok * charge.multiplier_bp
    billed = _scaled(charge.charge_nanousd, _MONEY)
    unit_price, list_cost = _scaled(price, _PRICE), _scaled(charge.tokens * price, _LIST)
    return {
        "BilledCost": billed,
        "EffectiveCost": billed,
        "ConsumedQuantity": Decimal(charge.tokens),
        "PricingQuantity": _scaled(charge.tokens, _MTOK_DIGITS),
        "ListUnitPrice": unit_price,
        "ListCost": list_cost,
        "ContractedUnitPrice": unit_price,
        "ContractedCost": list_cost,
    }


def _names(charge: Charge) -> dict[str, Cell]:
    sku = f"{charge.model}/{charge.kind}"
    tags = {"key": charge.key, "tier": charge.tier, "workflow": charge.workflow}
    kind = charge.kind.replace("_", " ")
    return {
        "ChargeDescription": f"{kind} tokens of {charge.model}, tier {charge.tier}",
        "ResourceId": charge.model,
        "ResourceName": charge.model,
        "SkuId": sku,
        "SkuPriceId": f"{sku}/{charge.tier}",
        "SubAccountId": charge.account,
        "SubAccountName": charge.account_name,
        # FOCUS requires key and value pairs as the text of a JSON object, in every file format.
        "Tags": msgspec.json.encode(tags).decode(),
        "x_ChargeReason": charge.charge_reason or None,
    }


def _scaled(number: int, digits: int) -> Decimal:
    return _EXACT.scaleb(Decimal(number), -digits)
