"""Explains one request out of its facts: why it was slow, dear, served so, or refused. Pure."""

from collections.abc import Iterator, Sequence
from typing import Final

from penstock.metering.reports.cache_findings import cache_findings
from penstock.metering.reports.slow_replicas import REQUESTS_MIN, median_if_slow
from penstock.metering.reports.surroundings import Surroundings
from penstock.records.decision import DecisionKind, DecisionVerdict
from penstock.wire.resources.decisions import DecisionAnswer
from penstock.wire.resources.explanation import Finding, RefusedMinute
from penstock.wire.resources.usage import AttemptAnswer

_LONG_WAIT_MS: Final = 1000.0
# By how much something must differ to stand out.
_SLOWER: Final = 1.5
_DEARER: Final = 1.5
_UNCACHED_MIN: Final = 2000
_LONG_ANSWER_MIN: Final = 100
_ORDER: Final = ("refused", "slow", "dear", "cache", "model")
_CHOSEN: Final = {
    "class": "the class of its task",
    "override": "its contract, which does not let callers choose",
    "fallback": "a budget with too little left",
}


def explain_attempts(
    attempts: Sequence[AttemptAnswer],
    decisions: Sequence[DecisionAnswer],
    around: Surroundings,
) -> list[Finding]:
    """Return what stands out about a request that ran, at least one finding."""
    last = attempts[-1]
    found = [*_refused(decisions), *_failed(last), *_slow(attempts, around)]
    found += [*_dear(last, around), *_model(last, decisions)]
    found += [
        Finding(about="cache", kind=each.kind, said=each.said, advice=each.advice)
        for each in cache_findings(last)
    ]
    return sorted(found, key=lambda each: _ORDER.index(each.about))


def explain_refusal(
    decisions: Sequence[DecisionAnswer], refused: Sequence[RefusedMinute]
) -> list[Finding]:
    """Return why a request did not run, as far as anything is known of it."""
    found = list(_refused(decisions))
    if not found and refused:
        counts = ", ".join(f"{each.count} {each.reason}" for each in refused[:5])
        found.append(
            Finding(
                about="refused",
                kind="refused",
                said="Nothing ran for it. Refused requests are only counted: in its minute there"
                f" were {counts}.",
                advice="Its answer named the reason; the reference of errors says what to do.",
            )
        )
    return found


def summary_of(findings: Sequence[Finding]) -> str:
    """Return a paragraph: the two most important conclusions, and what to do about the first."""
    if not findings:
        return "Nothing is known of this request: no attempt, no decision, no refusal."
    chosen = [each for each in findings if each.advice] or list(findings)
    parts = [each.said for each in chosen[:2]]
    if chosen[0].advice:
        parts.append(f"What to do: {chosen[0].advice}")
    return " ".join(parts)


def _refused(decisions: Sequence[DecisionAnswer]) -> Iterator[Finding]:
    for each in decisions:
        if each.verdict != DecisionVerdict.DENY or each.is_observed:
            continue
        about = ", ".join(each.subjects) or "it"
        yield Finding(
            about="refused",
            kind=each.kind,
            said=f"The contract {each.contract} refused {about}: {each.reason}.",
            advice=f"`penstock contracts show {each.contract.partition('@')[0]}` has the rule.",
        )


def _failed(last: AttemptAnswer) -> Iterator[Finding]:
    if last.outcome == "failed":
        yield Finding(
            about="refused",
            kind=last.error or "failed",
            said=f"It failed on replica {last.replica} after {_time(last.duration_ms)}:"
            f" {last.error or 'no reason was noted'}.",
            advice=f"`penstock replicas show {last.replica}` and `penstock replicas logs"
            f" {last.replica}` say how its engine is.",
        )
    elif last.outcome == "interrupted":
        yield Finding(
            about="refused",
            kind="interrupted",
            said="The gateway worker that served it ended before the answer did.",
        )


def _slow(attempts: Sequence[AttemptAnswer], around: Surroundings) -> Iterator[Finding]:
    last = attempts[-1]
    if last.waited_ms >= _LONG_WAIT_MS:
        yield Finding(
            about="slow",
            kind="waited",
            said=f"It waited {_time(last.waited_ms)} for a free slot on a replica of {last.model},"
            " or for another attempt.",
            advice="If many wait, the model is short of replicas (`penstock replicas list`): scale"
            " its deployment, or let work that can wait go as flex.",
        )
    for each in attempts[:-1]:
        yield Finding(
            about="slow",
            kind="retried",
            said=f"Attempt {each.attempt} on replica {each.replica} ended after"
            f" {_time(each.duration_ms)}: {each.error or each.outcome}.",
            advice=f"`penstock replicas show {each.replica}` says how its engine is.",
        )
    yield from _slow_replica(last, around)
    yield from _slow_prompt(last, around)
    yield from _long_answer(last)


def _slow_replica(last: AttemptAnswer, around: Surroundings) -> Iterator[Finding]:
    known = {
        each.replica: each.first_token_p50_ms
        for each in around.replicas
        if each.requests >= REQUESTS_MIN and each.first_token_p50_ms is not None
    }
    others = median_if_slow(last.replica, known)
    if others is not None:
        own = known[last.replica]
        yield Finding(
            about="slow",
            kind="replica",
            said=f"Replica {last.replica} is slow: its first tokens took {_time(own)} at the median"
            f" around that hour, {own / others:.1f} times as long as those of the model's other"
            f" replicas ({_time(others)}).",
            advice=f"Look at it with `penstock replicas show {last.replica}`, and replace it with"
            f" `penstock replicas drain {last.replica}`.",
        )


def _slow_prompt(last: AttemptAnswer, around: Surroundings) -> Iterator[Finding]:
    first, usual = last.first_token_ms, around.usual
    if first is None or usual is None or usual.first_token_p50_ms is None:
        return
    uncached = (last.prompt_tokens or 0) - (last.cached_tokens or 0)
    if first < usual.first_token_p50_ms * _SLOWER or uncached < _UNCACHED_MIN:
        return
    yield Finding(
        about="slow",
        kind="prompt",
        said=f"Its first token took {_time(first)}; usual for its workflow is"
        f" {_time(usual.first_token_p50_ms)}. The engine had to read {uncached:,} prompt tokens"
        " that were not cached.",
    )


def _long_answer(last: AttemptAnswer) -> Iterator[Finding]:
    speed, output, first = last.output_tokens_per_second, last.output_tokens, last.first_token_ms
    if not speed or first is None or output is None or output < _LONG_ANSWER_MIN:
        return
    if last.duration_ms >= 2 * (first + last.waited_ms):
        yield Finding(
            about="slow",
            kind="answer",
            said=f"Most of its {_time(last.duration_ms)} went by while {output:,} tokens were made,"
            f" {speed:.0f} a second.",
        )


def _dear(last: AttemptAnswer, around: Surroundings) -> Iterator[Finding]:
    usual = around.usual
    if (
        usual is None
        or last.charge_nanousd < usual.cost_nanousd * _DEARER
        or not usual.cost_nanousd
    ):
        return
    cached, prompt = last.cached_tokens or 0, last.prompt_tokens or 0
    hit, usual_hit = cached / max(1, prompt), usual.hit_ratio or 0.0
    # What each differs by, in tokens at the price of an attempt's own.
    dearer = {
        "prompt": (prompt - usual.prompt_tokens) * last.cached_input_nanousd_per_mtok,
        "cache": prompt
        * (usual_hit - hit)
        * (last.input_nanousd_per_mtok - last.cached_input_nanousd_per_mtok),
        "answer": ((last.output_tokens or 0) - usual.output_tokens) * last.output_nanousd_per_mtok,
    }
    said = {
        "prompt": f"its prompt has {prompt:,} tokens, usual are {usual.prompt_tokens:,.0f}",
        "cache": f"{hit:.0%} of its prompt was cached, usual is {usual_hit:.0%}",
        "answer": f"its answer has {last.output_tokens or 0:,} tokens, usual are"
        f" {usual.output_tokens:,.0f}",
    }
    cause = max(dearer, key=lambda each: dearer[each])
    times = last.charge_nanousd / usual.cost_nanousd
    yield Finding(
        about="dear",
        kind=cause,
        said=f"It cost {times:.1f} times as much as is usual for its workflow: {said[cause]}.",
    )


def _model(last: AttemptAnswer, decisions: Sequence[DecisionAnswer]) -> Iterator[Finding]:
    for each in decisions:
        if each.kind not in (DecisionKind.MODEL, DecisionKind.FALLBACK) or each.is_observed:
            continue
        why = "fallback" if each.kind == DecisionKind.FALLBACK else each.reason
        asked = f" instead of {last.model_asked}" if last.model_asked else ""
        yield Finding(
            about="model",
            kind=why,
            said=f"It ran on {last.model}{asked}, chosen by {_CHOSEN.get(why, why)}"
            f" ({each.contract}).",
        )


def _time(milliseconds: float) -> str:
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    return f"{milliseconds / 1000:.1f} s"
