"""Finds a contract's models in the catalogue, and refuses what could never take effect.

Nothing of a contract may be silently without effect: a rule that cannot match, a bound above every
model's context, or an empty table is an error here, with what to write instead.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from penstock.catalogue import Catalogue
from penstock.catalogue.close_names import closest
from penstock.contracts.advice import EXAMPLES
from penstock.contracts.budget_terms import FallbackTerms, check_budget, fallback_of
from penstock.contracts.contract_error import ContractError
from penstock.contracts.cutting.output_cap import OutputCap
from penstock.contracts.document import (
    AUTO_MODEL,
    DEFAULT_CLASS,
    DEFAULT_NAME,
    AskedModel,
    ClassRule,
    Contract,
    Mode,
    ModelTerms,
)
from penstock.contracts.named_model import find_model
from penstock.contracts.output_checks import check_tool_output
from penstock.contracts.reading import read_contract
from penstock.contracts.refusals import by_contract
from penstock.contracts.rule_cover import covers, fault_in_conditions
from penstock.contracts.tool_rules import check_tools, tool_terms_of
from penstock.errors import WorkflowNotAllowed
from penstock.records.account import AccountId
from penstock.records.decision import DecisionKind
from penstock.records.model import Model
from penstock.telemetry.metrics import FIRST_TOKEN_BUCKETS

ALL_ACCOUNTS: Final = "*"


class CompiledContract:
    """A contract ready to decide. `label` is its name with its version, as answers show it."""

    def __init__(
        self,
        contract: Contract,
        version: int,
        models: "CompiledModels | None",
        fallback: FallbackTerms | None = None,
    ) -> None:
        self.contract = contract
        self.name = contract.name
        self.version = version
        self.label = f"{contract.name}@{version}"
        self.is_observed = contract.mode is Mode.OBSERVE
        self.models = models
        prompt, output = contract.prompt, contract.output
        self.prompt_tokens_max = None if prompt is None else prompt.tokens_max
        self.output_tokens_max = None if output is None else output.tokens_max
        self.choices_max = None if output is None else output.choices_max
        cap = contract.tool_output
        self.tool_output = None if cap is None else OutputCap(contract.name, cap)
        self.tool_terms = tool_terms_of(contract, self.label)
        self.fallback = fallback
        self._accounts = contract.accounts

    def serves(self, account: AccountId) -> bool:
        return ALL_ACCOUNTS in self._accounts or account in self._accounts


class CompiledModels:
    """The models of a contract, found in the catalogue."""

    def __init__(
        self,
        default: Model,
        classes: dict[str, Model],
        asked: AskedModel,
        rules: Sequence[ClassRule],
    ) -> None:
        self.default = default
        self.classes = {**classes, DEFAULT_CLASS: default}
        self.asked = asked
        self.rules = rules
        self.ids = frozenset(model.id for model in self.classes.values())


class ContractSet:
    """All contracts of a cell at one time. `number` is its id in Postgres; 0 has none."""

    def __init__(self, number: int, contracts: Iterable[CompiledContract]) -> None:
        self.number = number
        self.by_name = {each.name: each for each in contracts}

    def find(self, workflow: str, account: AccountId) -> CompiledContract | None:
        """Return the contract of a request; None if none binds it."""
        named = self.by_name.get(workflow)
        if named is not None:
            if named.serves(account):
                return named
            if not named.is_observed:
                refused = WorkflowNotAllowed(
                    f"The workflow {workflow} is not for this account: send another name in"
                    " `x-penstock-workflow`, or none.",
                    param="x-penstock-workflow",
                )
                kind = DecisionKind.WORKFLOW
                raise by_contract(refused, named.label, workflow, kind, workflow)
        default = self.by_name.get(DEFAULT_NAME)
        return default if default is not None and default.serves(account) else None


def compile_set(
    number: int, rows: Iterable[tuple[int, str]], catalogue: Catalogue
) -> ContractSet | None:
    """Compile the texts of a set, each with its version; None if there are none.

    They were checked when the set was applied: a gateway of a release that checks more strictly
    goes on with them.
    """
    compiled = [
        compile_contract(read_contract(text), version, catalogue, is_checked=False)
        for version, text in rows
    ]
    return ContractSet(number, compiled) if compiled else None


def check_texts(texts: dict[str, str], catalogue: Catalogue) -> dict[str, Contract]:
    """Return the contracts of several files by their names; ContractError names the file."""
    found: dict[str, Contract] = {}
    files: dict[str, str] = {}
    for file, text in texts.items():
        contract = read_contract(text, file)
        if contract.name in found:
            raise ContractError(
                f"`{contract.name}` is also in {files[contract.name]}",
                advice="Give each contract a name of its own",
                key="name",
                file=file,
            )
        try:
            compile_contract(contract, 0, catalogue)
        except ContractError as error:
            raise error.in_file(file) from None
        found[contract.name], files[contract.name] = contract, file
    return found


def compile_contract(
    contract: Contract, version: int, catalogue: Catalogue, *, is_checked: bool = True
) -> CompiledContract:
    """Find a contract's models in the catalogue; check it, too, unless that was done before."""
    models = None
    if contract.models is not None:
        models = _compile_models(contract.models, catalogue)
    if is_checked:
        _check(contract, models, catalogue)
    return CompiledContract(contract, version, models, fallback_of(contract, catalogue))


def _check(contract: Contract, models: CompiledModels | None, catalogue: Catalogue) -> None:
    """Refuse what could never take effect."""
    _check_tables(contract)
    _check_accounts(contract)
    _check_objectives(contract)
    if contract.tool_output is not None:
        check_tool_output(contract.tool_output, contract.prompt)
    if contract.tools is not None:
        check_tools(contract.tools)
    if models is not None:
        _check_bounds(contract, models)
        _check_private(contract, models)
    named = [] if models is None else list(models.classes.values())
    check_budget(contract, named, catalogue)


def _compile_models(terms: ModelTerms, catalogue: Catalogue) -> CompiledModels:
    default = find_model(terms.default, "models.default", catalogue)
    if DEFAULT_CLASS in terms.class_:
        raise ContractError(
            "`default` is the class of requests that have no other",
            advice=f"Take it out, and write its model above: default = "
            f'"{terms.class_[DEFAULT_CLASS]}"',
            key="models.class.default",
        )
    classes = {
        name: find_model(model, f"models.class.{name}", catalogue)
        for name, model in terms.class_.items()
    }
    for at, rule in enumerate(terms.rule):
        _check_rule(terms, at, rule)
        named = rule.when.model
        # Only where the caller's model is overridden may it be one that is not here.
        if named not in (None, AUTO_MODEL) and terms.asked is not AskedModel.OVERRIDE:
            find_model(named, f"models.rule[{at}].when.model", catalogue)
    return CompiledModels(default, classes, terms.asked, terms.rule)


def _check_rule(terms: ModelTerms, at: int, rule: ClassRule) -> None:
    key = f"models.rule[{at}]"
    if rule.class_ != DEFAULT_CLASS and rule.class_ not in terms.class_:
        known = (*terms.class_, DEFAULT_CLASS)
        meant = next(iter(closest(rule.class_, known)), known[0])
        raise ContractError(
            f"{rule.class_!r} is no class of this contract",
            advice=f"Add it to `models.class`, or take one of these: {', '.join(known)}. "
            f'Write class = "{meant}"',
            key=f"{key}.class",
        )
    fault = fault_in_conditions(rule.when)
    if fault:
        raise ContractError(
            fault, advice=f"Write {EXAMPLES['models.rule.when']}", key=f"{key}.when"
        )
    for before, other in enumerate(terms.rule[:at]):
        if covers(other.when, rule.when):
            raise ContractError(
                f"models.rule[{before}] matches all that this one would, and comes first",
                advice="Put this one first, or take it out",
                key=key,
            )


def _check_tables(contract: Contract) -> None:
    for name in ("prompt", "output", "objectives"):
        table = getattr(contract, name)
        if table is not None and _is_empty(table):
            raise ContractError("bounds nothing", advice=f"Write {EXAMPLES[name]}", key=name)


def _is_empty(table: msgspec.Struct) -> bool:
    values = msgspec.structs.asdict(table)
    values.pop("window_days", None)
    return not any(
        value is not None and not (isinstance(value, msgspec.Struct) and _is_empty(value))
        for value in values.values()
    )


def _check_accounts(contract: Contract) -> None:
    if ALL_ACCOUNTS in contract.accounts and len(contract.accounts) > 1:
        raise ContractError(
            '"*" is every account already', advice=f"Write {EXAMPLES['accounts']}", key="accounts"
        )


def _check_objectives(contract: Contract) -> None:
    """Refuse objectives that no alert could see, as one between the edges of the metric."""
    objectives = contract.objectives
    if objectives is not None and contract.name == DEFAULT_NAME:
        raise ContractError(
            "metrics count by the name that requests give, and these have others or none",
            advice="Take it out, and write objectives for workflows that requests name",
            key="objectives",
        )
    if objectives is None or objectives.first_token_ms is None:
        return
    edges = [int(edge * 1000) for edge in FIRST_TOKEN_BUCKETS]
    for name, wanted in msgspec.structs.asdict(objectives.first_token_ms).items():
        if wanted is not None and wanted not in edges:
            nearest = min(edges, key=lambda edge: abs(edge - wanted))
            raise ContractError(
                f"{wanted} ms is not an edge of penstock_workflow_first_token_seconds:"
                f" {', '.join(map(str, edges))}",
                advice=f"Write {name} = {nearest}",
                key=f"objectives.first_token_ms.{name}",
            )


def _check_bounds(contract: Contract, models: CompiledModels) -> None:
    """Refuse a bound that no model of the contract could reach."""
    most = max(model.context_tokens for model in models.classes.values())
    for name, table in (("prompt", contract.prompt), ("output", contract.output)):
        bound = None if table is None else table.tokens_max
        if bound is not None and bound >= most:
            raise ContractError(
                f"{bound} is not below the {most} tokens of context that its models have",
                advice=f"Write tokens_max = {most // 2}",
                key=f"{name}.tokens_max",
            )


def _check_private(contract: Contract, models: CompiledModels) -> None:
    for name, model in models.classes.items():
        allowed = model.allowed_accounts
        barred = sorted(each for each in contract.accounts if allowed and each not in allowed)
        if barred and barred != [ALL_ACCOUNTS]:
            key = "models.default" if name == DEFAULT_CLASS else f"models.class.{name}"
            raise ContractError(
                f"{model.id} is private to other accounts than {barred[0]}",
                advice="Name another model, or leave the account out of `accounts`",
                key=key,
            )
