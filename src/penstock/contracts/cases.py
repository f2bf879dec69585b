"""Cases: requests, and what a set of contracts must make of them. Files of tests without a server.

`intake.contract_cases` runs them through the functions that gateways decide by.
"""

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from penstock.contracts.contract_error import ContractError

FOLDER = "cases"


class Expected(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What must come of a request; a key that is left out is not compared.

    `contract` is "" for none. `model` may be an alias. `error` is a code, "" for none.
    """

    contract: str | None = None
    task: str | None = None
    model: str | None = None
    why: Literal["", "class", "override"] | None = None
    applied: tuple[str, ...] | None = None
    error: str = ""


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
    # How many bytes its first user message has more: long prompts need no long files.
    longer_by: Annotated[int, Meta(ge=0, le=10**7)] = 0

    def whole_body(self) -> dict[str, Any]:
        """Return the body, with all the bytes that it has more."""
        if not self.longer_by:
            return self.body
        more, body = "word " * (self.longer_by // 5), dict(self.body)
        for name in ("input", "prompt"):
            if isinstance(body.get(name), str):
                body[name] += more
                return body
        messages = [dict(each) for each in body.get("messages", [])]
        for message in messages:
            if message.get("role") == "user" and isinstance(message.get("content"), str):
                message["content"] += more
                break
        return {**body, "messages": messages}


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
