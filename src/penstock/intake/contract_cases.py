"""Runs the cases of contracts through the functions by which gateways decide. Pure."""

from typing import Final

import msgspec
from msgspec import Raw

from penstock.catalogue import Catalogue
from penstock.contracts.cases import Case, Expected
from penstock.contracts.compiling import ContractSet
from penstock.contracts.cut_outputs import CutOutputs
from penstock.contracts.deciding import ContractDecision, decide
from penstock.contracts.document import AUTO_MODEL
from penstock.contracts.tool_verdicts import call_forbidden, call_unreadable
from penstock.errors import Error
from penstock.intake.apis import READERS, api_of
from penstock.intake.caller_headers import CallerHeaders
from penstock.intake.capabilities import require_capabilities
from penstock.intake.contracted import asked_of, cap_prompt, cap_response, check_prompt
from penstock.intake.contracted_rewrite import rewrite_by_contract
from penstock.intake.estimate import estimate
from penstock.intake.grant_cache import CachedGrant
from penstock.intake.opened_request import OpenedRequest
from penstock.intake.routes import RequestRoute, Surface
from penstock.policy import authorize
from penstock.records.account import Account, AccountId, Key, KeyId, Role
from penstock.records.model import Model
from penstock.records.request import Api
from penstock.wire.apis.chat import read_chat
from penstock.wire.apis.prompt_request import PromptRequest
from penstock.wire.apis.text_calls import has_text_call
from penstock.wire.apis.workers_ai import chat_fields

_RUN: Final = "run"
_NO_MEDIA: Final = frozenset[str]()


class CaseResult(msgspec.Struct, frozen=True):
    """What came of a case. `differs` has what was expected and what came, by key."""

    name: str
    differs: dict[str, tuple[str, str]]

    @property
    def is_passed(self) -> bool:
        return not self.differs


def run_case(
    case: Case, contracts: ContractSet, catalogue: Catalogue, bytes_per_token: float
) -> CaseResult:
    """Decide one request, and compare with what its case expects."""
    try:
        decision = _decide(case, contracts, catalogue, bytes_per_token)
        withheld = _judge_answer(case, decision)
    except Error as refused:
        if refused.code == case.expect.error:
            return CaseResult(case.name, {})
        came = f"{refused.code} ({refused.message})"
        return CaseResult(case.name, {"error": (case.expect.error, came)})
    return CaseResult(case.name, _differences(case.expect, decision, withheld, catalogue))


def _decide(
    case: Case, contracts: ContractSet, catalogue: Catalogue, bytes_per_token: float
) -> ContractDecision | None:
    key = _key(case)
    body = case.whole_body()
    fields = {name: Raw(msgspec.json.encode(value)) for name, value in body.items()}
    given = body.get("model", AUTO_MODEL)
    is_run = case.api == _RUN
    surface = Surface.WORKERS_RUN if is_run else Surface.OPENAI
    route = RequestRoute(surface, Api.CHAT if is_run else Api(case.api), model=given)
    asked = asked_of(route, _headers(case), key, fields, given)
    decision = decide(contracts, asked, catalogue)
    if decision is None:
        return None
    model = decision.model
    granted = CachedGrant(key, _account(case), model, None, authorize(key, model, "", None))
    opened = OpenedRequest(route, granted, fields, api_of(route, model, fields), 0)
    opened.contract = decision
    cap_response(opened, decision)
    rewrite_by_contract(opened, decision, CutOutputs())
    prompt = _read(opened, model)
    if prompt.needs:
        require_capabilities(model, prompt, opened.api)
    cap_prompt(prompt, model, decision)
    check_prompt(estimate(prompt, model, bytes_per_token).prompt_tokens, decision)
    return decision


def _judge_answer(case: Case, decision: ContractDecision | None) -> list[str]:
    """Return the tools whose calls are replaced by a note; raise what withholds the answer."""
    answer, terms = case.answer, None if decision is None else decision.contract.tool_terms
    if answer is None or terms is None or terms.is_observed:
        return []
    forbidden = [name for name in answer.calls if not terms.allows(name)]
    is_chat = case.api in ("chat", _RUN)
    if forbidden and not (terms.is_noted and is_chat):
        raise call_forbidden(terms, forbidden[0])
    if terms.denies_text_calls and has_text_call(answer.text):
        raise call_unreadable(terms, "that is written as text")
    return forbidden


def _read(opened: OpenedRequest, model: Model) -> PromptRequest:
    fields = opened.fields
    if opened.api is not Api.CHAT:
        return READERS[opened.api](fields, _NO_MEDIA)
    return read_chat(chat_fields(fields, model) if opened.route.is_run else fields, _NO_MEDIA)


def _headers(case: Case) -> CallerHeaders:
    given = ((b"x-penstock-workflow", case.workflow), (b"x-penstock-task", case.task))
    return CallerHeaders([(name, value.encode()) for name, value in given if value])


def _account(case: Case) -> Account:
    return Account(AccountId(case.account), "")


def _key(case: Case) -> Key:
    return Key(KeyId(case.key), Role.RUNTIME, _account(case), name=case.key, workflow=case.bound_to)


def _differences(
    expect: Expected,
    decision: ContractDecision | None,
    withheld: list[str],
    catalogue: Catalogue,
) -> dict[str, tuple[str, str]]:
    wanted: dict[str, str] = {"error": expect.error}
    for name in ("contract", "task", "why"):
        value = getattr(expect, name)
        if value is not None:
            wanted[name] = value
    if expect.model is not None:
        wanted["model"] = catalogue.find(expect.model).id
    if expect.applied is not None:
        wanted["applied"] = ", ".join(expect.applied)
    if expect.withheld is not None:
        wanted["withheld"] = ", ".join(expect.withheld)
    came = dict.fromkeys(("error", "contract", "task", "why", "model", "applied"), "")
    came["withheld"] = ", ".join(withheld)
    if decision is not None:
        came |= {
            "contract": decision.contract.name,
            "task": decision.task,
            "why": decision.why,
            "model": decision.model.id,
            "applied": ", ".join(map(str, decision.effects)),
        }
    return _compare(wanted, came)


def _compare(wanted: dict[str, str], came: dict[str, str]) -> dict[str, tuple[str, str]]:
    return {name: (value, came[name]) for name, value in wanted.items() if came[name] != value}
