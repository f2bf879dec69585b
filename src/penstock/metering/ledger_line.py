"""Writes an attempt as a line for COPY, in two halves: one before the attempt, one after it.

Times are whole microseconds; the time of the request itself is in its id. `COLUMNS` names all
fields in the order of the staging table in `ledger.sql`.
"""

from typing import Final

from penstock.metering.bill import Bill
from penstock.records.decimals import whole
from penstock.records.price import Price, Tier
from penstock.records.request import STEP, InferenceRequest, Outcome, RequestEnd, RequestLabels

OPENING_COLUMNS: Final = (
    "request", "account", "key", "model", "tier", "input_nanousd_per_mtok",
    "cached_input_nanousd_per_mtok", "output_nanousd_per_mtok", "multiplier_bp", "attempt",
    "replica", "session", "prompt_family", "workflow", "is_stream", "client_retry",
    "caller_request", "waited_us", "limits", "cached_expected", "session_moved", "cache_break",
    "parent_id", "purpose", "contract", "task", "model_asked",
)  # fmt: skip
CLOSING_COLUMNS: Final = (
    "duration_us", "outcome", "error", "first_token_us", "streamed_us", "prompt_tokens",
    "cached_tokens", "is_cached_estimated", "output_tokens", "charge_nanousd", "charge_reason",
)  # fmt: skip
COLUMNS: Final = OPENING_COLUMNS + CLOSING_COLUMNS

# Microseconds of an attempt: in total, to its first token, and from its first token to its end.
Times = tuple[int, int | None, int | None]

_NULL: Final = b"\\N"
_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\0": None})
_MARKED: Final = bytes.maketrans(b"\\\t\n\r\0", b"/    ")
_PAYERS_MAX: Final = 10_000
_LIMITS_MAX: Final = 10_000
_limits: Final[dict[tuple[int, ...], bytes]] = {}
_TIER_AT: Final = OPENING_COLUMNS.index("tier")
_PURPOSE_AT: Final = OPENING_COLUMNS.index("purpose")
_NOW: Final = Tier.NOW.encode()
_STEP: Final = STEP.encode()
_PRICE_AT: Final = OPENING_COLUMNS.index("input_nanousd_per_mtok")
_EXPECTED_AT: Final = OPENING_COLUMNS.index("cached_expected")
# The trailing columns that are missing in openings written by earlier releases.
UNLABELLED: Final = b"\t\t\t\t\t"
UNROUTED: Final = b"\\N\t\t\t" + UNLABELLED


def opening(
    request: InferenceRequest, end: RequestEnd, waited_us: int, limits: tuple[int, ...]
) -> bytes:
    """Return the first half: caller, model, replica, price, and the cache use routing expects."""
    labels = request.labels
    session, workflow, caller = labels.session, labels.workflow, labels.caller_request_id
    family, moved, broken = labels.prompt_family, end.session_moved, end.cache_break
    return b"%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s" % (
        request.id.encode(),
        _who_pays_what(request),
        whole(request.placement.attempt_base + end.attempts + 1),
        end.replica.encode(),
        _escaped(session) if session else b"",
        family.encode() if family else b"",
        _escaped(workflow) if workflow else b"",
        _flag(request.prompt.is_stream),
        _number(labels.client_retry),
        _escaped(caller) if caller else b"",
        whole(waited_us),
        _joined(limits),
        _number(end.cached_expected),
        moved.encode() if moved else b"",
        broken.encode() if broken else b"",
        _belongs_to(labels),
    )


def _belongs_to(labels: RequestLabels) -> bytes:
    """Return the last five columns, from `parent_id` to `model_asked`; most requests have none."""
    turn, purpose, contract = labels.parent_id, labels.purpose, labels.contract
    task, asked = labels.task, labels.model_asked
    # Not `any` of a tuple, which costs as much as a label.
    if not (turn or purpose or contract or task or asked):
        return UNLABELLED
    return b"%s\t%s\t%s\t%s\t%s\t" % (
        _escaped(turn) if turn else b"",
        _escaped(purpose) if purpose else b"",
        _escaped(contract) if contract else b"",
        _escaped(task) if task else b"",
        _escaped(asked) if asked else b"",
    )


class _Payer:
    """Cached text of account, key, model, tier and price, which most requests of a key share."""

    def __init__(self, account: str, tier: Tier, price: Price, text: bytes) -> None:
        self.account = account
        self.tier = tier
        self.price = price
        self.text = text


_payers: Final[dict[tuple[str, str], _Payer]] = {}


def _who_pays_what(request: InferenceRequest) -> bytes:
    """Return the columns from account to price, cached by key and model until one changes."""
    account, tier, price = request.account, request.terms.tier, request.terms.price
    model = request.model.id
    known = _payers.get((request.key, model))
    if (
        known is not None
        and known.price is price
        and known.tier is tier
        and known.account == account
    ):
        return known.text
    text = (
        f"{account}\t{request.key}\t{model}\t{tier.value}\t"
        f"{price.input_nanousd_per_mtok}\t{price.cached_input_nanousd_per_mtok}\t"
        f"{price.output_nanousd_per_mtok}\t{price.multiplier_bp}"
    ).encode("utf-8", "replace")
    if len(_payers) >= _PAYERS_MAX:
        _payers.clear()
    _payers[request.key, model] = _Payer(account, tier, price, text)
    return text


def closing(times: Times, outcome: Outcome, error: str, billed: Bill) -> bytes:
    """Return the second half: times, outcome, usage and charge."""
    usage = billed.usage
    duration, first, streamed = times
    prompt = cached = output = _NULL
    if usage is not None:
        prompt, output = whole(usage.prompt_tokens), whole(usage.completion_tokens)
        cached = _number(usage.cached_tokens)
    return b"%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n" % (
        whole(duration),
        b"ok" if outcome is Outcome.OK else outcome.value.encode(),
        error.encode() if error else b"",
        _number(first),
        _number(streamed),
        prompt,
        cached,
        _flag(billed.is_cached_estimated),
        output,
        whole(billed.charge_nanousd),
        billed.reason.encode() if billed.reason else b"",
    )


def agreed_in(opened: bytes) -> tuple[Price, int | None]:
    """Return the price and the expected cached tokens that an opening half contains."""
    fields = opened.split(b"\t")
    expected = fields[_EXPECTED_AT]
    return (
        Price(*map(int, fields[_PRICE_AT : _PRICE_AT + 4])),
        None if expected == _NULL else int(expected),
    )


def is_charged_by_completion(opened: bytes) -> bool:
    """Return whether an opening half belongs to an attempt that its completion charges.

    The journal has no column for it: these are attempts of jobs, by their tier, and steps of live
    work, by their purpose.
    """
    fields = opened.split(b"\t")
    return fields[_TIER_AT] != _NOW or fields[_PURPOSE_AT] == _STEP


def _flag(is_so: bool) -> bytes:
    return b"1" if is_so else b"0"


def _number(value: int | None) -> bytes:
    return _NULL if value is None else whole(value)


def _joined(limits: tuple[int, ...]) -> bytes:
    """Return limits as a Postgres array, cached because an account's requests share a few."""
    known = _limits.get(limits)
    if known is None:
        if len(_limits) >= _LIMITS_MAX:
            _limits.clear()
        known = _limits[limits] = f"{{{','.join(map(str, limits))}}}".encode()
    return known


def _escaped(label: str) -> bytes:
    """Return a label escaped for COPY. Labels should be printable; a line must survive others."""
    try:
        written = label.encode()
    except UnicodeEncodeError:
        written = label.encode("utf-8", "replace")
    # `_MARKED` changes every byte that needs an escape, so an unchanged label needs none.
    if written.translate(_MARKED) == written:
        return written
    return label.translate(_ESCAPES).encode("utf-8", "replace")
