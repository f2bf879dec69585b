"""Says which requests may be served by their contract's cheaper model when money is short. Pure."""

from penstock.admission import estimate_nanousd
from penstock.contracts.deciding import ContractDecision
from penstock.errors import Error
from penstock.intake.apis import api_of
from penstock.intake.caller_headers import CallerHeaders
from penstock.intake.opened_request import OpenedRequest
from penstock.records.model import Model
from penstock.records.request import Api, InferenceRequest


def may_fall_back(decision: ContractDecision, headers: CallerHeaders) -> bool:
    """Return whether money decides by which model this request is served.

    Callers may say that a request is not critical, and never that it is.
    """
    fallback, contract = decision.contract.fallback, decision.contract.contract
    if fallback is None or not decision.is_enforced or fallback.model is decision.model:
        return False
    return not contract.critical or headers.is_uncritical()


def takes_as_is(opened: OpenedRequest, model: Model) -> bool:
    """Return whether a model takes a request in the form in which another would have got it."""
    try:
        api = api_of(opened.route, model, opened.fields) if opened.composed is None else opened.api
    except Error:
        return False
    return api is opened.api and (api is not Api.RESPONSES or model.responses == "engine")


def is_cheaper(read: InferenceRequest, dear: InferenceRequest) -> bool:
    """Return whether a request read for another model fits into that, and may cost no more."""
    fits = dear.terms.prompt_tokens_estimate < read.model.context_tokens
    return fits and estimate_nanousd(read) <= estimate_nanousd(dear)
