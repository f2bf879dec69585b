"""Cases: requests and answers, and what contracts must make of them. Tests without a server.

`intake.contract_cases` runs them through the functions that gateways decide by.
"""

import tomllib
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from penstock.contracts.contract_error import ContractError

FOLDER = "cases"
_WORD: Final = "word "
_LINE: Final = "Another line of output.\n"


class Expected(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What must come of a request; a key that is left out is not compared.

    `contract` is "" for none. `model` may be an alias. `error` is a code, "" for none.
    """

    contract: str | None = None
    task: str | None = None
    model: str | None = None
    why: Literal["", "class", "override"] | None = None
    applied: tuple[str, ...] | None = None
    # The tools whose calls are replaced by a note.
    withheld: tuple[str, ...] | None = None
    error: str = ""


class CaseAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the model answers: tools that it calls, by their names, and its text."""

    calls: tuple[str, ...] = ()
    text: str = ""


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One request. `model` of its body may be left out: then it is `auto`."""

    name: Annotated[str, Meta(min_length=1, max_length=200)]
    expect: Expected
    api: Literal["chat", "completions", "embeddings", "messages", "responses", "run"] = "chat"
    account: str = "0" * 32
    # The name of the caller's key, and the workflow that it is bound to.
    key: str = "key"
    bound_to: str = ""
    # What the caller's headers say.
    workflow: str = ""
    task: str = ""
    body: dict[str, Any] = {}
    answer: CaseAnswer | None = None
    # How many bytes its first user message has more: long prompts need no long files.
    longer_by: Annotated[int, Meta(ge=0, le=10**7)] = 0
    # The same for each output of a tool.
    outputs_longer_by: Annotated[int, Meta(ge=0, le=10**7)] = 0

    def whole_body(self) -> dict[str, Any]:
        """Return the body, with all the bytes that it has more."""
        body = self.body
        if self.longer_by:
            body = _with_longer_message(body, _WORD * (self.longer_by // len(_WORD)))
        if self.outputs_longer_by:
            more = _LINE * (self.outputs_longer_by // len(_LINE))
            for name in ("messages", "input"):
                if isinstance(body.get(name), list):
                    body = {**body, name: [_with_longer_output(each, more) for each in body[name]]}
        return body


def _with_longer_message(body: dict[str, Any], more: str) -> dict[str, Any]:
    for name in ("input", "prompt"):
        if isinstance(body.get(name), str):
            return {**body, name: body[name] + more}
    messages = [dict(each) for each in body.get("messages", [])]
    for message in messages:
        if message.get("role") == "user" and isinstance(message.get("content"), str):
            message["content"] += more
            break
    return {**body, "messages": messages}


def _with_longer_output(message: dict[str, Any], more: str) -> dict[str, Any]:
    """Return a message, item or block whose output, or those in it, are longer."""
    if message.get("role") == "user" and isinstance(message.get("content"), list):
        blocks = [_with_longer_output(block, more) for block in message["content"]]
        return {**message, "content": blocks}
    is_message = message.get("role") == "tool" or message.get("type") == "tool_result"
    name = "content" if is_message else "output"
    if isinstance(message.get(name), str):
        return {**message, name: message[name] + more}
    return message


class _CaseFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    case: list[Case] = []


def read_cases(folder: Path) -> list[Case]:
    """Return the cases of a folder of contracts, in the order of their files."""
    return [case for path in sorted((folder / FOLDER).glob("*.toml")) for case in _read_file(path)]


def parse_cases(text: str, file: str = "") -> list[Case]:
    try:
        return msgspec.convert(tomllib.loads(text), _CaseFile).case
    # What is not TOML, has another shape, or is nested too deep.
    except (ValueError, RecursionError) as bad:
        advice = 'Write [[case]] tables with `name`, what is asked, and `expect = { task = "…" }`'
        raise ContractError(str(bad), advice=advice, file=file) from None


def _read_file(path: Path) -> list[Case]:
    return parse_cases(path.read_text(), str(path))
