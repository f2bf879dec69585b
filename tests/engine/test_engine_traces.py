"""The span of a real engine hangs under our attempt, and both tell the same of a request."""

from tests.engine.real_cell import TEXT_MODEL, Cell
from tests.integration.cells.gateway_process import eventually
from tests.integration.cells.trace_collector import TraceCollector
from tests.unit.telemetry.read_spans import EngineSpan


def test_the_engines_span_hangs_under_the_attempt(cell: Cell, collector: TraceCollector) -> None:
    asked = {
        "model": TEXT_MODEL,
        "messages": [{"role": "user", "content": "Name three rivers."}],
        "max_tokens": 8,
    }
    with cell.client() as client:
        answer = client.post(f"{cell.openai_url}/chat/completions", json=asked)
    assert answer.status_code == 200, answer.text
    usage = answer.json()["usage"]
    _, [attempt] = collector.tree_of(answer.headers["x-request-id"])

    def spans() -> list[EngineSpan]:
        return [span for span in collector.engine_spans if span.trace_id == attempt.trace_id]

    eventually(lambda: bool(spans()), 30)
    [span] = spans()
    assert (span.name, span.parent_id) == ("llm_request", attempt.span_id)
    assert attempt.start_nanos <= span.end_nanos <= attempt.end_nanos
    facts = span.attributes
    assert facts["gen_ai.usage.prompt_tokens"] == usage["prompt_tokens"]
    assert facts["gen_ai.usage.completion_tokens"] == usage["completion_tokens"]
    assert attempt.attributes["gen_ai.usage.input_tokens"] == usage["prompt_tokens"]
    # The parts that make a first token late, as the engine knows them.
    for part in ("time_in_queue", "time_in_model_prefill", "time_in_model_decode"):
        assert facts[f"gen_ai.latency.{part}"] >= 0
