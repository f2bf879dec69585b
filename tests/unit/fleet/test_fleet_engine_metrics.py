"""What is read from an engine's metrics, and the rate of prefill that is learned from it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.fleet.engine_pages import ALONE, AT_ONCE, SHORT, engine_page

from penstock.fleet.engine_metrics import EngineMetrics, PrefillRate, UncachedRate, read_metrics


def test_load_is_read_from_a_page_of_a_real_engine() -> None:
    found = read_metrics(engine_page(running=6.0, waiting=2.0, kv_use=0.10192837465564741))
    assert (found.running, found.waiting, found.inside) == (6, 2, 8)
    assert found.kv_use == pytest.approx(0.1019, abs=1e-4)
    assert found.kv_tokens == 46_592
    assert found.block_tokens == 128


def test_ranks_of_one_engine_are_added_up_and_their_use_is_the_mean() -> None:
    first = engine_page(running=2.0, waiting=4.0, kv_use=0.5)
    second = engine_page(running=1.0, kv_use=0.1).replace(b'engine="0"', b'engine="1"')
    found = read_metrics(first + second)
    assert (found.inside, found.kv_tokens) == (7, 2 * 46_592)
    assert found.kv_use == pytest.approx(0.3)


def test_size_of_a_cache_is_that_of_its_blocks_where_no_size_is_said() -> None:
    page = engine_page().replace(b'kv_cache_size_tokens="46592",', b"")
    assert read_metrics(page).kv_tokens == 364 * 128
    page = page.replace(b'num_gpu_blocks="364"', b'num_gpu_blocks="None"')
    assert read_metrics(page).kv_tokens == 0


@pytest.mark.parametrize("nonsense", ["many", "NaN", "-1.0", "+Inf", ""])
def test_an_engine_that_makes_no_sense_is_unknown_and_not_idle(nonsense: str) -> None:
    assert read_metrics(engine_page(running=nonsense)).inside is None
    assert read_metrics(engine_page(waiting=nonsense)).inside is None
    assert read_metrics(engine_page(kv_use=nonsense)).kv_use == 0.0
    assert read_metrics(b"# nothing here\n") == EngineMetrics()


@given(st.binary(max_size=300) | st.text(max_size=300).map(lambda t: ("vllm:" + t).encode()))
def test_no_page_breaks_the_reader(page: bytes) -> None:
    found = read_metrics(page + b"\n" + engine_page(running=1.0))
    assert 0.0 <= found.kv_use <= 1.0


def test_rate_is_that_of_prompts_that_were_alone() -> None:
    rate = PrefillRate()
    rate.note(read_metrics(engine_page()), 0.0)
    assert rate.tokens_per_second == 0.0
    rate.note(read_metrics(ALONE), 10.0)
    assert rate.tokens_per_second == pytest.approx(1025, abs=1)
    # Six at once each count the whole time: half the rate, and not what a token costs.
    rate.note(read_metrics(AT_ONCE), 20.0)
    assert rate.tokens_per_second == pytest.approx(1025, abs=1)
    rate.note(read_metrics(SHORT), 30.0)
    assert rate.tokens_per_second == pytest.approx(1025, abs=1)


def test_short_prompts_alone_tell_no_rate() -> None:
    rate = PrefillRate()
    rate.note(read_metrics(AT_ONCE), 0.0)
    rate.note(read_metrics(SHORT), 1.0)
    assert rate.tokens_per_second == 0.0


def test_a_best_rate_is_forgotten_after_some_minutes_of_others() -> None:
    rate = PrefillRate()
    tokens = seconds = 0.0
    for step in range(2000):
        tokens += 1000
        seconds += 0.1 if step == 1 else 1.0
        page = engine_page(prefills=step + 1.0, tokens=tokens, seconds=seconds)
        rate.note(read_metrics(page), float(step))
        if step == 100:
            assert rate.tokens_per_second == pytest.approx(10_000)
    assert rate.tokens_per_second == pytest.approx(1000)


def test_an_engine_that_was_started_again_does_not_spoil_the_rate() -> None:
    rate = PrefillRate()
    for page in (engine_page(), ALONE, engine_page(), ALONE):
        rate.note(read_metrics(page), 1.0)
    assert rate.tokens_per_second == pytest.approx(1025, abs=1)


@given(
    st.lists(
        st.tuples(st.floats(1.0, 1e5), st.floats(1e-3, 1e3), st.floats(0.0, 400.0)), max_size=30
    )
)
def test_rate_is_never_above_the_fastest_that_was_seen(
    steps: list[tuple[float, float, float]],
) -> None:
    rate = PrefillRate()
    tokens = seconds = now = 0.0
    rate.note(EngineMetrics(), now)
    for number, (more, took, pause) in enumerate(steps):
        tokens, seconds, now = tokens + more, seconds + took, now + pause
        rate.note(
            EngineMetrics(prefilled_tokens=tokens, prefill_seconds=seconds, prefills=number + 1.0),
            now,
        )
        fastest = max(m / t for m, t, _ in steps[: number + 1])
        assert rate.tokens_per_second <= fastest * 1.001


def test_the_rate_of_given_tokens_is_that_of_the_last_minute() -> None:
    given_tokens = UncachedRate()
    assert given_tokens.tokens_per_second == 0.0
    for second in range(100):
        before = min(second, 50)
        given_tokens.note(EngineMetrics(uncached_tokens=100.0 * before), float(second))
    # It was given nothing for 49 of the last 60 seconds.
    assert given_tokens.tokens_per_second == pytest.approx(1100 / 60)
    # An engine that was started again counts from 0.
    given_tokens.note(EngineMetrics(uncached_tokens=0.0), 101.0)
    assert given_tokens.tokens_per_second == 0.0
    given_tokens.note(EngineMetrics(uncached_tokens=30.0), 102.0)
    assert given_tokens.tokens_per_second == 30.0


def test_uncached_tokens_are_those_that_no_cache_had() -> None:
    page = b"""vllm:prefix_cache_queries_total{engine="0"} 500.0
vllm:prefix_cache_hits_total{engine="0"} 300.0
vllm:prompt_tokens_total{engine="0"} 480.0
"""
    assert read_metrics(page).uncached_tokens == 200.0
    without_cache = b'vllm:prompt_tokens_total{engine="0"} 480.0'
    assert read_metrics(without_cache).uncached_tokens == 480.0
