"""Why a prompt was cached or not, in words that say what to do."""

from typing import Any

import pytest
from tests.unit.metering.attempt_columns import answer_of

from penstock.metering.reports.cache_findings import cache_answer
from penstock.wire.resources.cache_findings import CacheAnswer


def story(*attempts: dict[str, Any]) -> CacheAnswer:
    return cache_answer(answer_of(*attempts))


def kinds(**facts: Any) -> list[str]:
    return [finding.kind for finding in story(facts).findings]


@pytest.mark.parametrize(("expected", "cached"), [(900, 900), (900, 730), (0, 640), (None, 640)])
def test_what_was_expected_is_a_hit(expected: int | None, cached: int) -> None:
    assert kinds(cached_expected=expected, cached_tokens=cached) == ["hit"]


def test_much_less_than_expected_was_pushed_out() -> None:
    (finding,) = story({"cached_tokens": 16}).findings
    assert finding.kind == "evicted"
    assert "900" in finding.said
    assert "16" in finding.said
    assert finding.advice


@pytest.mark.parametrize(("prompt", "kind"), [(37, "short"), (127, "short"), (128, "new")])
def test_prompt_shorter_than_a_block_is_never_cached(prompt: int, kind: str) -> None:
    facts = {"prompt_tokens": prompt, "cached_tokens": 0, "cached_expected": 0, "session": ""}
    assert kinds(**facts) == [kind]


@pytest.mark.parametrize("part", ["tools", "system", "message 3"])
def test_break_names_its_part_and_what_to_do(part: str) -> None:
    (broken, _) = story({"cache_break": part, "cached_expected": 0, "cached_tokens": 0}).findings
    assert broken.kind == "break"
    assert part in broken.said
    assert broken.advice


@pytest.mark.parametrize("reason", ["load", "drain", "lost"])
def test_move_is_told_with_its_reason(reason: str) -> None:
    (moved, _) = story({"session_moved": reason, "cached_expected": 0, "cached_tokens": 0}).findings
    assert moved.kind == "moved"
    assert moved.advice


def test_reason_of_a_later_version_is_left_out() -> None:
    assert kinds(session_moved="whim") == ["hit"]


def test_prompt_that_nobody_had_is_new_and_a_nameless_one_is_told_to_have_a_name() -> None:
    facts = {"cached_expected": 0, "cached_tokens": 0}
    assert kinds(**facts) == ["new"]
    assert "x-session-affinity" not in story(facts).findings[0].advice
    assert "x-session-affinity" in story({**facts, "session": ""}).findings[0].advice


def test_estimate_is_called_one() -> None:
    assert kinds(is_cached_estimated=True, outcome="client_left") == ["estimated"]


def test_unknown_is_not_taken_for_nothing() -> None:
    (silent,) = story({"cached_tokens": None}).findings
    assert silent.kind == "unknown"
    assert "--enable-prompt-tokens-details" in silent.advice
    (cut,) = story({"cached_tokens": None, "outcome": "failed"}).findings
    assert (cut.kind, cut.advice) == ("unknown", "")


def test_last_attempt_is_the_one_that_counts() -> None:
    answer = story({"cache_break": "tools", "replica": "r0"}, {"replica": "r1"})
    assert (answer.attempt, answer.replica, answer.cache_break) == (2, "r1", "")
