"""The header with which an engine tells its load: what is believed, how often, and for how long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.engine.engine_answers import ANSWER
from tests.unit.engine.engine_line import Collector, Lines, Notes, make_request
from tests.unit.engine.tiny_engine import Call

from penstock.engine.load_header import read_load
from penstock.records.engine_load import EngineLoad

# As vLLM 0.32 wrote it.
REAL = b'JSON {"named_metrics": {"num_requests_waiting": 3.0, "kv_cache_usage_perc": 0.1019}}'


def test_a_real_header_is_read() -> None:
    assert read_load(REAL) == EngineLoad(3, 0.1019)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"TEXT named_metrics.kv_cache_usage_perc=0.4",
        b"JSON",
        b"JSON {}",
        b"JSON \xff",
        b'JSON {"named_metrics": {"num_requests_waiting": -1}}',
        b'JSON {"named_metrics": {"kv_cache_usage_perc": 1.5}}',
        b'JSON {"named_metrics": {"kv_cache_usage_perc": "full"}}',
        b"JSON " + b"[" * 5000,
    ],
)
def test_what_makes_no_sense_says_nothing(value: bytes) -> None:
    assert read_load(value) is None


@given(st.binary(max_size=200))
def test_no_header_breaks_the_reader(value: bytes) -> None:
    load = read_load(b"JSON " + value)
    assert load is None or 0 <= load.kv_use <= 1


async def test_a_header_is_taken_ten_times_a_second_at_most_and_forgotten_when_it_is_old(
    lines: Lines,
) -> None:
    async def tell(call: Call) -> None:
        told = REAL.replace(b"3.0", b"%d.0" % len(call.engine.calls))
        await call.answer(ANSWER, headers=b"endpoint-load-metrics: %s\r\n" % told)

    line = await lines.open(tell)

    async def ask() -> None:
        request = make_request()
        await line.client.run(request, line.client.attempt(request, Collector(), Notes()))

    now = line.clock.monotonic
    assert line.client.take_load(now()) is None
    await ask()
    await ask()
    assert line.client.take_load(now()) == EngineLoad(1, 0.1019)
    line.clock.advance(0.2)
    await ask()
    assert line.client.take_load(now()) == EngineLoad(3, 0.1019)
    line.clock.advance(0.6)
    assert line.client.take_load(now()) == EngineLoad()
    assert line.client.take_load(now()) is None
