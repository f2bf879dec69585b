"""Estimates how much a request may use at most, and applies the caller's own cap on its cost.

The prompt is estimated by its bytes: a tokenizer would cost more than the rest of the gateway.
"""

from decimal import Decimal, InvalidOperation
from typing import Final

from penstock.errors import CostCapped, InvalidRequest
from penstock.metering import usd
from penstock.records.model import Model
from penstock.records.price import Price, cost_nanousd
from penstock.records.usage import Usage
from penstock.wire.apis.prompt_request import PromptRequest

_HEADER: Final = "x-penstock-max-cost-usd"
_USD_MAX: Final = 10**6


class Estimate:
    """Tokens that a budget reserves. `max_tokens` is what one choice may have."""

    def __init__(self, prompt_tokens: int, max_tokens: int, choices: int) -> None:
        self.prompt_tokens = prompt_tokens
        self.max_tokens = max_tokens
        self.choices = choices

    @property
    def output_tokens(self) -> int:
        return self.choices * self.max_tokens

    def shortened(self, max_tokens: int) -> "Estimate":
        return Estimate(self.prompt_tokens, max_tokens, self.choices)

    def cost_nanousd(self, price: Price) -> int:
        """Return the cost with nothing cached and every choice at its longest."""
        return cost_nanousd(Usage(self.prompt_tokens, self.output_tokens, 0), price)


def estimate(asked: PromptRequest, model: Model, bytes_per_token: float) -> Estimate:
    """Return the most that a request may use; at most the model's context for each text."""
    exact = asked.prompt_bytes / bytes_per_token
    prompt = int(exact)
    if prompt < exact:
        # Rounded up by hand: `math.ceil` takes twenty times as long.
        prompt += 1
    if asked.images:
        prompt += asked.images * model.image_tokens_max
    given = model.default_output_tokens if asked.max_tokens is None else asked.max_tokens
    context = model.context_tokens
    most = context * asked.prompts
    return Estimate(min(prompt, most), min(given, context), asked.choices)


def within_cap(
    wanted: Estimate, price: Price, cap: str, *, may_shorten: bool, spent_nanousd: int = 0
) -> Estimate:
    """Return the estimate, or a shorter one within the caller's cap; CostCapped if none is.

    Only an answer whose length the caller left open is shortened. `spent_nanousd` is what earlier
    requests of the same turn were charged: the cap is for all of them.
    """
    cap_nanousd = max(0, _nanousd(cap) - spent_nanousd)
    if wanted.cost_nanousd(price) <= cap_nanousd:
        return wanted
    if may_shorten:
        least, most = 0, wanted.max_tokens
        while least < most:
            middle = (least + most + 1) // 2
            if wanted.shortened(middle).cost_nanousd(price) > cap_nanousd:
                most = middle - 1
            else:
                least = middle
        if least:
            return wanted.shortened(least)
    raise CostCapped(
        f"This request may cost up to ${usd(wanted.cost_nanousd(price))}, more than the"
        f" ${usd(cap_nanousd)} that `{_HEADER}` leaves. Shorten the prompt, lower `max_tokens`, or"
        " raise the cap.",
        param=_HEADER,
    )


def _nanousd(text: str) -> int:
    try:
        dollars = Decimal(text)
    except InvalidOperation:
        dollars = Decimal(-1)
    if not dollars.is_finite() or not 0 <= dollars <= _USD_MAX:
        raise InvalidRequest(
            f"`{_HEADER}` must be dollars from 0 to {_USD_MAX}, such as 0.05.", param=_HEADER
        )
    return int(dollars * 10**9)
