"""Refuses caps of tools' outputs that could never take effect. Pure."""

from typing import Final

from penstock.contracts.advice import EXAMPLES
from penstock.contracts.contract_error import ContractError
from penstock.contracts.document import OUTPUT_BYTES_MIN, PromptTerms, ToolOutputTerms
from penstock.records.name_patterns import covers, normal

# The most that gateways may take for a token when they estimate a prompt.
_TOKEN_BYTES_MAX: Final = 16


def check_tool_output(terms: ToolOutputTerms, prompt: PromptTerms | None) -> None:
    _check_exempt(terms)
    _check_prompt_room(terms, prompt)


def _check_exempt(terms: ToolOutputTerms) -> None:
    """Refuse to exempt every tool, and a pattern that another one hides."""
    exempt = sorted(terms.exempt or ())
    for pattern in exempt:
        if not pattern.strip("*"):
            raise ContractError(
                f'"{pattern}" exempts every tool: no output would be cut',
                advice=f"Name tools, or none. Write {EXAMPLES['tool_output.exempt']}",
                key="tool_output.exempt",
            )
        others = [each for each in exempt if each != pattern]
        hiding = [each for each in others if covers(normal(each), normal(pattern))]
        if hiding:
            names = ", ".join(f'"{each}"' for each in others)
            raise ContractError(
                f'"{hiding[0]}" exempts all that "{pattern}" would',
                advice=f"Take one of them out. Write exempt = [{names}]",
                key="tool_output.exempt",
            )


def _check_prompt_room(terms: ToolOutputTerms, prompt: PromptTerms | None) -> None:
    """Refuse to cut outputs to a length with which every prompt is refused."""
    if prompt is None or prompt.tokens_max is None:
        return
    most = prompt.tokens_max * _TOKEN_BYTES_MAX
    if terms.bytes_max >= most:
        raise ContractError(
            f"prompt.tokens_max refuses every prompt of {most} bytes, so none with a cut output",
            advice=f"Raise prompt.tokens_max, or cut more. Write bytes_max = {most // 2}"
            if most // 2 >= OUTPUT_BYTES_MIN
            else "Take `tool_output` out: prompts are shorter than what it cuts to",
            key="tool_output.bytes_max",
        )
