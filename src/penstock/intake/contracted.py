"""Applies a workflow's contract to a request: which model serves it, and what is bounded.

Every function is pure but for the fields that it lowers. A contract that only observes changes
nothing: what it would have done is noted as an effect.
"""

from typing import Final

from msgspec import Raw

from penstock.catalogue import Catalogue
from penstock.contracts.asked import Asked, Effect
from penstock.contracts.compiling import ContractSet
from penstock.contracts.deciding import ContractDecision, decide, workflow_of
from penstock.contracts.refusals import by_contract
from penstock.errors import ModelNotAllowed, PromptOverContract, WorkflowNotAllowed
from penstock.intake.caller_headers import CallerHeaders
from penstock.intake.opened_request import OpenedRequest
from penstock.intake.routes import RequestRoute
from penstock.records.account import Key
from penstock.records.decision import DecisionKind, DecisionVerdict
from penstock.records.model import Model
from penstock.records.request import Api
from penstock.wire.apis import prompt_fields
from penstock.wire.apis.prompt_request import TOKENS, PromptRequest
from penstock.wire.apis.request_facts import RequestFacts
from penstock.wire.json_body import Field, Fields, is_given

_RUN: Final = "run"
_RESPONSE_TOKENS: Final = Field("max_output_tokens", TOKENS, None)
_CHOICES: Final = "n"
# With it, a request on `/ai/run` asks for the answers to queued ones.
_POLL: Final = "request_id"


def asked_of(
    route: RequestRoute, headers: CallerHeaders, key: Key, fields: Fields, model: str
) -> Asked:
    """Return what a contract is asked; refuse another workflow than that of a bound key."""
    metadata = fields.get("metadata")
    return Asked(
        key=key,
        workflow=workflow_of(key, headers.workflow(prompt_fields.workflow_of(fields))),
        task=headers.task(b"" if metadata is None else bytes(metadata)),
        model=model,
        api=_RUN if route.is_run else route.api,
        facts=RequestFacts(fields),
    )


def check_workflow(headers: CallerHeaders, key: Key, fields: Fields) -> None:
    """Refuse a request of a bound key that names another workflow, where no contract is asked."""
    workflow_of(key, headers.workflow(prompt_fields.workflow_of(fields)))


def decision_of(
    contracts: ContractSet, asked: Asked, fields: Fields, catalogue: Catalogue
) -> tuple[ContractDecision | None, Model]:
    """Return what the contract of a request decided, if it has one, and the model that runs.

    A poll runs nothing: what was queued kept its own contract, and none refuses to hand it over.
    """
    is_poll = asked.api == _RUN and is_given(fields, _POLL)
    decision = None
    try:
        decision = decide(contracts, asked, catalogue)
    except (ModelNotAllowed, WorkflowNotAllowed):
        if not is_poll:
            raise
    model = catalogue.find(asked.model) if decision is None else decision.model
    return None if is_poll else decision, model


def cap_response(opened: OpenedRequest, decision: ContractDecision) -> None:
    """Bound a Responses request as a whole: it may take several questions to the model."""
    most = decision.contract.output_tokens_max
    if most is None or opened.api is not Api.RESPONSES or not decision.is_enforced:
        return
    given = _RESPONSE_TOKENS.read(opened.fields)
    wanted = opened.model.default_output_tokens if given is None else given
    if wanted > most:
        opened.fields[_RESPONSE_TOKENS.name] = Raw(b"%d" % most)
        decision.is_length_open = given is None
        note(decision, _output_lowered(most))


def cap_turn(opened: OpenedRequest, decision: ContractDecision) -> None:
    """Bound a response with tools that run here, also where each answer in it is short enough.

    Where its caller bounds nothing, each question to the model would have the default length.
    """
    most = decision.contract.output_tokens_max
    if most is None or _RESPONSE_TOKENS.read(opened.fields) is not None:
        return
    note(decision, _output_lowered(most))
    if decision.is_enforced:
        opened.fields[_RESPONSE_TOKENS.name] = Raw(b"%d" % most)
        decision.is_length_open = True


def cap_prompt(prompt: PromptRequest, model: Model, decision: ContractDecision) -> None:
    """Lower what a request asks of one answer, and how many answers it asks for."""
    contract = decision.contract
    prompt.may_shorten = prompt.may_shorten or decision.is_length_open
    most = contract.output_tokens_max
    given = model.default_output_tokens if prompt.max_tokens is None else prompt.max_tokens
    if most is not None and given > most:
        note(decision, _output_lowered(most))
        if decision.is_enforced:
            prompt.bound_tokens(most)
    choices = contract.choices_max
    each = prompt.choices // prompt.prompts
    if choices is not None and each > choices:
        note(decision, Effect("choices", str(choices), DecisionKind.OUTPUT, subjects=("choices",)))
        if decision.is_enforced:
            prompt.fields[_CHOICES] = Raw(b"%d" % choices)
            prompt.choices = choices * prompt.prompts


def check_prompt(tokens: int, decision: ContractDecision) -> None:
    """Refuse a prompt that is longer than its contract allows, by its estimate."""
    most = decision.contract.prompt_tokens_max
    if most is None or tokens <= most:
        return
    code = PromptOverContract.code
    note(
        decision,
        Effect("prompt", "refused", DecisionKind.PROMPT, DecisionVerdict.DENY, reason=code),
    )
    if decision.is_enforced:
        refused = PromptOverContract(
            f"This prompt has about {tokens} tokens, and the contract {decision.contract.label}"
            f" allows {most}. Shorten the conversation, or begin a new one.",
            param="messages",
        )
        raise by_contract(refused, decision.contract.label, decision.workflow, DecisionKind.PROMPT)


def _output_lowered(most: int) -> Effect:
    return Effect("output", str(most), DecisionKind.OUTPUT, subjects=("tokens",))


def note(decision: ContractDecision, effect: Effect) -> None:
    """Note what a contract changed, once."""
    # A turn asks the model several times, and each time the same bounds apply.
    if effect not in decision.effects:
        decision.effects.append(effect)
