"""`penstock cache why`, as it is printed."""

import msgspec
import pytest

from penstock.cli.cache import print_cache
from penstock.wire.resources.cache_findings import CacheAnswer, CacheFinding

ANSWER = CacheAnswer(
    request="r",
    attempt=1,
    replica="r1",
    session="[fix]",
    prompt_tokens=18204,
    cached_tokens=2048,
    is_cached_estimated=False,
    cached_expected=None,
    session_moved="",
    cache_break="system",
    findings=[
        CacheFinding(kind="break", said="The system message changed.", advice="Keep dates out."),
        CacheFinding(kind="hit", said="2048 were cached."),
    ],
)


def test_facts_stand_on_one_line_and_findings_below(capsys: pytest.CaptureFixture[str]) -> None:
    print_cache(ANSWER)
    lines = capsys.readouterr().out.splitlines()
    facts = "prompt 18,204, cached 2,048, expected -, replica r1, session [fix]"
    assert lines[0] == f"request r: {facts}"
    assert lines[2:4] == ["break: The system message changed.", "What to do: Keep dates out."]
    assert lines[5:] == ["hit: 2048 were cached."]


def test_estimate_has_a_mark(capsys: pytest.CaptureFixture[str]) -> None:
    print_cache(msgspec.structs.replace(ANSWER, is_cached_estimated=True, session=""))
    assert "cached 2,048?, expected -, replica r1, no session" in capsys.readouterr().out
