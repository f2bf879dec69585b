"""Decides by a contract which model serves a request, and what is bounded. Pure.

The same request and the same contract give the same decision, on every gateway and at every retry.
"""

import re
from functools import lru_cache
from typing import Final

from penstock.catalogue import Catalogue
from penstock.contracts.asked import Asked, Effect
from penstock.contracts.compiling import CompiledContract, CompiledModels, ContractSet
from penstock.contracts.document import AUTO_MODEL, DEFAULT_CLASS, AskedModel, When
from penstock.contracts.refusals import by_contract
from penstock.errors import Error, ModelNotAllowed, WorkflowNotAllowed
from penstock.records.account import Key
from penstock.records.decision import DecisionKind, DecisionVerdict, LoggedDecision
from penstock.records.model import Capability, Model
from penstock.records.name_patterns import expression_of
from penstock.wire.apis.request_facts import RequestFacts

# Why another model runs than the caller named.
BY_CLASS: Final = "class"
BY_OVERRIDE: Final = "override"
BY_FALLBACK: Final = "fallback"


class ContractDecision:
    """What a contract decided of one request. An observed one has effects that did not happen."""

    def __init__(
        self, contract: CompiledContract, model: Model, task: str, asked: Asked, why: str
    ) -> None:
        self._asked = asked
        self.contract = contract
        self.model = model
        self.task = task
        self.workflow = asked.workflow
        self.model_asked = asked.model
        # The caller's name for a class, if the contract has classes and none of that name.
        is_unknown = contract.models is not None and asked.task not in (task, "")
        self.unknown_task = asked.task if is_unknown else ""
        self.why = why
        # Whether the body's bound of the answer is the contract's, where the caller gave none.
        self.is_length_open = False
        self.effects: list[Effect] = []

    @property
    def is_enforced(self) -> bool:
        return not self.contract.is_observed

    def copied(self) -> "ContractDecision":
        """Return a copy with effects of its own, for one of several requests in a body."""
        copied = ContractDecision(self.contract, self.model, self.task, self._asked, self.why)
        copied.is_length_open = self.is_length_open
        copied.effects = list(self.effects)
        return copied

    def fallen_back(self, model: Model, reason: str) -> "ContractDecision":
        """Return a copy by which a cheaper model serves the request, for a reason of its budget."""
        copied = self.copied()
        copied.model, copied.why = model, BY_FALLBACK
        kind = DecisionKind.FALLBACK
        effect = Effect(BY_FALLBACK, model.id, kind, subjects=(model.id,), reason=reason)
        copied.effects.append(effect)
        return copied

    def logged(self) -> tuple[LoggedDecision, ...]:
        """Return the effects as the log has them: one decision of each kind and verdict."""
        if not self.effects:
            return ()
        groups: dict[tuple[DecisionKind, DecisionVerdict], list[Effect]] = {}
        for effect in self.effects:
            groups.setdefault((effect.decided, effect.verdict), []).append(effect)
        return tuple(
            LoggedDecision(
                kind=kind,
                verdict=verdict,
                subjects=tuple(subject for each in effects for subject in each.subjects),
                reason=next((each.reason for each in effects if each.reason), ""),
                facts={each.kind: each.value for each in effects},
                is_observed=self.contract.is_observed,
            )
            for (kind, verdict), effects in groups.items()
        )


def workflow_of(key: Key, given: str) -> str:
    """Return the workflow that a request counts as: that of its key, if the key is bound to one."""
    if not key.workflow:
        return given
    if given and given != key.workflow:
        refused = WorkflowNotAllowed(
            f"This key is for the workflow {key.workflow}: send that in `x-penstock-workflow`, or"
            " nothing.",
            param="x-penstock-workflow",
        )
        raise by_contract(refused, "", given, DecisionKind.WORKFLOW, given)
    return key.workflow


def decide(contracts: ContractSet, asked: Asked, catalogue: Catalogue) -> ContractDecision | None:
    """Return the decision of the contract that binds a request; None if none does."""
    account = asked.key.account
    contract = None if account is None else contracts.find(asked.workflow, account.id)
    if contract is None:
        return None
    models = contract.models
    if models is None:
        return ContractDecision(contract, catalogue.find(asked.model), "", asked, "")
    task = _class_of(models, asked)
    if contract.is_observed and asked.model != AUTO_MODEL:
        return _observed(contract, models, task, asked, catalogue)
    try:
        model, why = _choose(models, task, asked, catalogue, contract.label)
    except ModelNotAllowed as refused:
        label, kind = contract.label, DecisionKind.MODEL
        raise by_contract(refused, label, asked.workflow, kind, asked.model) from None
    decision = ContractDecision(contract, model, task, asked, why)
    if why:
        decision.effects.append(_other_model(model, why))
    return decision


def _observed(
    contract: CompiledContract,
    models: CompiledModels,
    task: str,
    asked: Asked,
    catalogue: Catalogue,
) -> ContractDecision:
    """Serve the model that the caller named, and note what enforcing would have done."""
    own = catalogue.find(asked.model)
    decision = ContractDecision(contract, own, task, asked, "")
    try:
        wanted, why = _choose(models, task, asked, catalogue, contract.label)
    except ModelNotAllowed:
        decision.effects.append(_model_refused(asked.model))
    else:
        if why:
            decision.effects.append(_other_model(wanted, why))
    return decision


def _other_model(model: Model, why: str) -> Effect:
    return Effect("model", model.id, DecisionKind.MODEL, subjects=(model.id,), reason=why)


def _model_refused(name: str) -> Effect:
    code = ModelNotAllowed.code
    return Effect("model", "refused", DecisionKind.MODEL, DecisionVerdict.DENY, (name,), code)


def _class_of(models: CompiledModels, asked: Asked) -> str:
    if asked.task:
        return asked.task if asked.task in models.classes else DEFAULT_CLASS
    for rule in models.rules:
        if matches(rule.when, asked):
            return rule.class_
    return DEFAULT_CLASS


def _choose(
    models: CompiledModels, task: str, asked: Asked, catalogue: Catalogue, label: str
) -> tuple[Model, str]:
    """Return the model that runs, and why it is another than the caller's, else ""."""
    wanted = models.classes[task]
    if not _can_serve(wanted, asked.facts):
        wanted = models.default
    if asked.model == AUTO_MODEL:
        return wanted, BY_CLASS
    if models.asked is AskedModel.OVERRIDE:
        return wanted, "" if _known(catalogue, asked.model) is wanted else BY_OVERRIDE
    own = catalogue.find(asked.model)
    is_allowed = own is wanted if models.asked is AskedModel.REFUSE else own.id in models.ids
    if is_allowed:
        return own, ""
    names = wanted.id if models.asked is AskedModel.REFUSE else ", ".join(sorted(models.ids))
    raise ModelNotAllowed(
        f"The contract {label} does not allow the model {own.id} here: send"
        f' `"model": "{AUTO_MODEL}"`, or {names}.',
        param="model",
    )


def _known(catalogue: Catalogue, name: str) -> Model | None:
    try:
        return catalogue.find(name)
    except Error:
        return None


def _can_serve(model: Model, facts: RequestFacts) -> bool:
    """Return whether a model has the capabilities that a request seems to need."""
    if facts.tool_names and not model.has(Capability.TOOLS):
        return False
    return model.has(Capability.VISION) or not facts.may_need_vision


def matches(when: When, asked: Asked) -> bool:
    """Return whether a request fulfils all conditions; only facts that are named are looked at."""
    return (
        _matches_labels(when, asked)
        and _matches_tools(when, asked.facts)
        and _matches_body(when, asked.facts)
    )


def _matches_labels(when: When, asked: Asked) -> bool:
    return (
        when.api in (None, asked.api)
        and when.model in (None, asked.model)
        and when.key in (None, asked.key.id, asked.key.name)
    )


def _matches_tools(when: When, facts: RequestFacts) -> bool:
    if when.tool is not None and not _offers(facts, when.tool):
        return False
    is_exact = when.tools is None or len(facts.tool_names) == when.tools
    if when.tools_min is None and when.tools_max is None:
        return is_exact
    return is_exact and _within(len(facts.tool_names), when.tools_min, when.tools_max)


def _offers(facts: RequestFacts, tool: str) -> bool:
    return bool(facts.tool_names) and _among_lines(tool).search(facts.tool_lines) is not None


@lru_cache(maxsize=1024)
def _among_lines(tool: str) -> re.Pattern[str]:
    """Return what finds a name among lines: a match for each of thousands would stall a worker."""
    return re.compile(f"\\n{expression_of(tool)}\\n")


def _matches_body(when: When, facts: RequestFacts) -> bool:
    is_alike = (
        (when.stream is None or facts.is_stream is when.stream)
        and (when.structured is None or facts.is_structured is when.structured)
        and (when.reasoning_effort is None or facts.reasoning_effort == when.reasoning_effort)
        and (when.images is None or facts.has_images is when.images)
    )
    if not is_alike:
        return False
    least, most = when.opening_bytes_min, when.opening_bytes_max
    is_bounded = least is not None or most is not None
    if is_bounded and not _within(facts.opening_bytes, least, most):
        return False
    least, most = when.output_tokens_min, when.output_tokens_max
    if least is None and most is None:
        return True
    tokens = facts.output_tokens_max
    return tokens is not None and _within(tokens, least, most)


def _within(value: int, least: int | None, most: int | None) -> bool:
    return (least is None or value >= least) and (most is None or value <= most)
