"""Estimates the most that a request may use, for limits and budgets to reserve. Pure."""

from penstock.records.limit import Measure
from penstock.records.price import cost_nanousd
from penstock.records.request import InferenceRequest
from penstock.records.usage import Usage


def estimate(request: InferenceRequest, measure: Measure) -> int:
    """Return 1 for requests, all its tokens, or their price with nothing cached."""
    if measure is Measure.REQUESTS:
        return 1
    if measure is Measure.TOKENS:
        return request.terms.prompt_tokens_estimate + request.terms.output_tokens_max
    return estimate_nanousd(request)


def estimate_nanousd(request: InferenceRequest) -> int:
    """Return what a request may cost at most, at the price of its start."""
    usage = Usage(request.terms.prompt_tokens_estimate, request.terms.output_tokens_max, 0)
    return cost_nanousd(usage, request.terms.price)
