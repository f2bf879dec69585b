"""The reference page of errors: the tree in code, and what to do, in docs/words/errors.toml."""

import inspect
import tomllib
from pathlib import Path

from penstock import errors
from penstock.ingress.error_response import WORKERS_AI

WHAT_TO_DO: dict[str, str] = tomllib.loads(
    (Path(__file__).parent / "words/errors.toml").read_text()
)
_HEAD = """# Errors

Every error names one of these codes, in `error.code` (OpenAI's shape, on all surfaces). Under
`/client/v4` the number in `errors[0].code` is Workers AI's own. The message says what was wrong
in this case.

**May I try again?** `x-should-retry` says so, and `retry-after` when; the openai and cloudflare
SDKs obey both. The codes are cut by that question: what is *refused* or *unavailable* has not run
and costs nothing; what is *interrupted* had begun, and is recorded; what is *withheld* was made,
is charged, and does not go out.

**In a stream** an error before the first byte is a plain HTTP error. Later the status has been
sent, and the same error comes as the last event, in the shape of that API.

**To ask somebody about it**, give the answer's `x-request-id`: it is in the log, at the engine
and in the ledger.

Workers AI's codes 3039, 5016, 5019 and 5035 are never sent: they speak of things that do not
exist here. 3021 is for rates, 3036 for quotas and for the limit of queued jobs.
"""
_BRANCHES: tuple[tuple[type[errors.Error], str, str], ...] = (
    (errors.Refused, "Refused: the caller's side", "Nothing ran, nothing is billed."),
    (errors.Unavailable, "Unavailable: our side", "Nothing ran; trying again is safe."),
    (
        errors.Interrupted,
        "Interrupted: it had begun",
        "Our side too. Its usage is recorded; repeat it only where that is harmless.",
    ),
    (
        errors.Withheld,
        "Withheld: the contract kept the answer back",
        "It ran, is counted and charged, and another try would most likely end alike.",
    ),
)


def error_page() -> str:
    """The whole page."""
    parts = [_HEAD, "## All codes\n"]
    parts += ["| code | `/v1` | `/client/v4` | retry | what it means |", "|---|---|---|---|---|"]
    parts += [_row(kind) for kind in error_tree()]
    shown: set[type[errors.Error]] = set()
    for branch, title, about in _BRANCHES:
        parts += ["", f"## {title}\n", about]
        parts += [_section(kind) for kind in error_tree(branch)]
        shown |= set(error_tree(branch))
    parts += ["", "## Not sent to clients\n"]
    parts += [_section(kind) for kind in error_tree() if kind not in shown]
    return "\n".join(parts)


def error_tree(kind: type[errors.Error] = errors.Error) -> list[type[errors.Error]]:
    """Every class of errors from this one down, in the order of the code."""
    return [kind, *(found for child in kind.__subclasses__() for found in error_tree(child))]


def _row(kind: type[errors.Error]) -> str:
    status, number = _workers_ai(kind)
    name = f"[`{kind.code}`](#{kind.code})"
    cells = (name, kind.status, f"{status} / {number}", _retry(kind), _meaning(kind))
    return f"| {' | '.join(map(str, cells))} |"


def _section(kind: type[errors.Error]) -> str:
    assert kind.code in WHAT_TO_DO, f"{kind.code}: say what to do in docs/words/errors.toml"
    return f"\n### `{kind.code}`\n\n*{_meaning(kind)}* {WHAT_TO_DO[kind.code]}"


def _workers_ai(kind: type[errors.Error]) -> tuple[int, int]:
    return next(WORKERS_AI[one] for one in kind.__mro__ if one in WORKERS_AI)


def _retry(kind: type[errors.Error]) -> str:
    if issubclass(kind, errors.OverLimit):
        return "if the wait is short"
    return "yes" if kind.retryable else "no"


def _meaning(kind: type[errors.Error]) -> str:
    return (inspect.getdoc(kind) or "").splitlines()[0]
