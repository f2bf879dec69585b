"""Reads what a request is called: its session, its workflow, and what its contract decided."""

from penstock.intake.caller_headers import CallerHeaders, label
from penstock.intake.opened_request import OpenedRequest
from penstock.records.prompt_chain import PromptChain
from penstock.records.request import RequestLabels
from penstock.wire.apis.prompt_request import PromptRequest
from penstock.wire.prompt.chain import digest


def labels_of(
    headers: CallerHeaders, opened: OpenedRequest, prompt: PromptRequest, prompt_family: str
) -> RequestLabels:
    session = headers.session_label() if headers.session() else label(_session_in_body(prompt))
    contract = opened.contract
    return RequestLabels(
        session=session,
        # A bound key first: an item of a list may have metadata that nobody compared with it.
        workflow=opened.grant.workflow or headers.workflow(prompt.workflow),
        prompt_family=prompt_family,
        caller_request_id=headers.caller_request_id(),
        client_retry=headers.client_retry(),
        parent_id=opened.turn,
        contract="" if contract is None else contract.contract.label,
        task="" if contract is None else contract.task,
        model_asked="" if contract is None or not contract.why else label(contract.model_asked),
    )


def session_key_of(
    headers: CallerHeaders, opened: OpenedRequest, prompt: PromptRequest, chain: PromptChain
) -> int:
    """Digest the session's whole name: its label is cut, and two sessions may share one."""
    session = headers.session() or _session_in_body(prompt) or opened.session
    return digest(session, opened.granted.seed) if session else chain.opening


def _session_in_body(prompt: PromptRequest) -> str:
    return prompt.cache_key or prompt.conversation
